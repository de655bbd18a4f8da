"""The seed of statistical assertions that were not given one: 0, or what `pytest --sdi-seed` says."""

from __future__ import annotations

_seed = 0


def current_seed() -> int:
    """
    >>> current_seed()
    0
    """
    return _seed


def set_seed(seed: int) -> None:
    global _seed
    _seed = seed
