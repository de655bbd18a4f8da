"""picture: a sequence of names on one line, repetitions folded: "a → (b → c) × 6 → d"."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 40  # names that a repetition may have


def picture(names: Sequence[str]) -> str:
    """The names in order, joined by arrows; what repeats stands once with its number, also within what repeats.

    >>> picture(["in", "L", "L", "H", "L", "L", "H", "out"])
    'in → (L × 2 → H) × 2 → out'
    """
    parts = list(names)
    while (found := _longest(parts)) is not None:
        start, size, times = found
        inner = " → ".join(parts[start : start + size])
        parts[start : start + size * times] = [f"({inner}) × {times}" if size > 1 else f"{inner} × {times}"]
    return " → ".join(parts)


def _longest(parts: Sequence[str]) -> tuple[int, int, int] | None:
    """Start, size and times of a repetition: the shortest that repeats, and of these the one that covers most."""
    for size in range(1, min(LONGEST, len(parts) // 2) + 1):
        best, start = None, 0
        while start + 2 * size <= len(parts):
            times = 1
            while parts[start + times * size : start + (times + 1) * size] == parts[start : start + size]:
                times += 1
            if times > 1 and (best is None or times > best[2]):
                best = (start, size, times)
            start += 1
        if best is not None:
            return best
    return None
