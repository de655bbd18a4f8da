"""The largest batch whose peak stays under a byte budget, found by measuring, each size in a fresh process."""

from __future__ import annotations

from collections.abc import Callable


def largest_batch(peak: Callable[[int], float], budget: float, most: int = 1 << 14) -> int:
    """A batch that fits, beside one at most a twentieth (or 1) larger that does not; 0 if one example is too many.

    The next size to try is where the line through the two nearest measurements meets the budget, but it always lies
    inside the bracket, so a crooked line costs time only.

    >>> largest_batch(lambda n: 3.0 + 2.0 * n, budget=23.5)
    10
    """
    found: dict[int, float] = {}

    def fits(n: int) -> bool:
        found[n] = peak(n)
        return found[n] <= budget

    low, high = 0, None
    n = 1
    while high is None or high - low > max(1, low // 20):
        if fits(n):
            low = n
            if n >= most:
                return low
        else:
            high = n
        n = _next(found, budget, low, high, most)
    return low


def _next(found: dict[int, float], budget: float, low: int, high: int | None, most: int) -> int:
    """Strictly inside the bracket while it is open."""
    if high is not None and low == 0:
        return high // 2
    sizes = sorted(found, key=lambda n: abs(found[n] - budget))[:2]
    guess = 4 * low
    if len(sizes) == 2 and found[sizes[0]] != found[sizes[1]]:
        a, b = sizes
        guess = int(a + (budget - found[a]) * (b - a) / (found[b] - found[a]))
    guess = min(max(guess, low + max(1, low // 20)), 8 * low, most)  # one step on at least: does that not fit?
    return guess if high is None else min(guess, high - 1)
