"""Interleaved timing: in every round each contender runs once, so that drift of the machine affects all alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Progress = Callable[[str], None]


def interleave(
    turns: Mapping[str, Callable[[], float]], rounds: int, progress: Progress = lambda _: None, warm: bool = False
) -> dict[str, list[float]]:
    """What each contender measured in each round, after one uncounted warm-up round, unless `warm`.

    >>> interleave({"a": lambda: 1.0, "b": lambda: 2.0}, rounds=3)
    {'a': [1.0, 1.0, 1.0], 'b': [2.0, 2.0, 2.0]}
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    measured: dict[str, list[float]] = {name: [] for name in turns}
    for k in range(1 if warm else 0, rounds + 1):
        for name, turn in turns.items():
            progress(f"{name}, " + (f"round {k} of {rounds}" if k else "warm-up"))
            value = turn()
            if k:
                measured[name].append(value)
    return measured
