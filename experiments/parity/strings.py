"""Bit strings: the fixed training pool of every length, test strings, and probes with known periods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .settings import SHORTEST, Settings

EQUALS = 2
TRAIN, LABELS, TEST, SAMPLE, CALIBRATION, EVALUATION, STEPS = range(7)  # streams of random numbers of one seed
MIXED = "mixed"  # as many ones as the alternating string has, in another order: its running parity has no period
PROBES: dict[str, int | None] = {"01": 4, "10": 4, "0": 1, "1": 2, "001": 6, MIXED: None}  # period of running parity


def training_strings(settings: Settings, n: int) -> list[str]:
    """The strings of n bits that training draws from, without repeats: all of them, or settings.pool random ones."""
    if 2**n <= settings.pool:
        return [f"{code:0{n}b}" for code in range(2**n)]
    return random_strings(np.random.default_rng([settings.seed, TRAIN, n]), n, settings.pool)


def random_strings(rng: np.random.Generator, n: int, count: int) -> list[str]:
    """Different random strings of n bits."""
    if count > 2**n:
        raise ValueError(f"there are {2**n} strings of {n} bits, asked for {count} different ones")
    chosen: dict[str, None] = {}
    while len(chosen) < count:
        bits = rng.integers(0, 2, (count, n))
        chosen.update(dict.fromkeys("".join(map(str, row)) for row in bits))
    return list(chosen)[:count]


def parity_of(strings: Sequence[str]) -> np.ndarray:
    """1 where the number of ones is odd.

    >>> parity_of(["0110", "1000"]).tolist()
    [0, 1]
    """
    return np.array([s.count("1") % 2 for s in strings])


def labels_of(settings: Settings, strings: Sequence[str]) -> np.ndarray:
    """What training says of each string: its parity, or in the shuffled control a coin that is always the same."""
    if settings.labels == "parity":
        return parity_of(strings)
    return np.array([np.random.default_rng([settings.seed, LABELS, len(s), int(s, 2)]).integers(2) for s in strings])


def probe(n: int, pattern: str) -> str:
    """A pattern, repeated to n bits; or the mixed probe.

    >>> probe(5, "01"), probe(8, "mixed")
    ('01010', '11010100')
    """
    if pattern != MIXED:
        return (pattern * n)[:n]
    return "".join(np.random.default_rng(n).permutation(list(probe(n, "01"))))


def true_period(pattern: str, n: int) -> int | None:
    """The period of the running parity of a probe, as far as n bits show it: what an automaton that counts must have.

    >>> [true_period(p, 40) for p in ("01", "10", "0", "1", "001", "mixed")]
    [4, 4, 1, 2, 6, None]
    """
    run = np.cumsum([int(b) for b in probe(n, pattern)]) % 2
    return next((p for p in range(1, n // 2) if (run[p:] == run[:-p]).all()), None)


def held_out(settings: Settings, n: int, count: int) -> list[str]:
    """`count` random strings of n bits that training never saw, fixed by the seed of the settings."""
    known = set(training_strings(settings, n)) if n <= settings.longest else set()
    found = random_strings(np.random.default_rng([settings.seed, TEST, n]), n, min(2**n, count + len(known)))
    return [s for s in found if s not in known][:count]


def training_sample(settings: Settings) -> list[str]:
    """The training strings whose influence is computed: settings.per_tercile from each third of the training lengths,
    and settings.at_longest of the longest, all different."""
    rng = np.random.default_rng([settings.seed, SAMPLE])
    pools = {n: training_strings(settings, n) for n in range(SHORTEST, settings.longest + 1)}
    chosen: dict[str, None] = {}

    def take(lengths: Sequence[int], count: int) -> None:
        free = [s for n in lengths for s in pools[n] if s not in chosen]
        if count > len(free):
            raise ValueError(f"training holds {len(free)} strings of {lengths[0]}..{lengths[-1]} bits, asked {count}")
        while count:
            strings = pools[int(rng.choice(lengths))]
            s = strings[rng.integers(len(strings))]
            if s not in chosen:
                chosen[s] = None
                count -= 1

    take([settings.longest], settings.at_longest)
    for lengths in np.array_split(np.arange(SHORTEST, settings.longest + 1), 3):
        take(lengths.tolist(), settings.per_tercile)
    return list(chosen)


def encode(strings: Sequence[str]) -> Any:
    """Tokens of strings of one length: the bits and "="."""
    import torch

    bits = np.array([[int(b) for b in s] for s in strings])
    return torch.from_numpy(np.pad(bits, ((0, 0), (0, 1)), constant_values=EQUALS))
