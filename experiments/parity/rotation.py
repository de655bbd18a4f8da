"""rotation: the rival of the automaton. A state that turns by the share of ones, whatever their order.

Without positions, attention can average the bits: with k ones of n, a turn by k/n of a half circle at every step is a
turn by k half circles at the read-out, so the answer is right, though no bit was ever read in its place. Such a model
has period 2n/k on every string, 4 on an alternating one: the period of the running parity, for another reason. Strings
of the same ones in another order tell the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .forward import unroll
from .settings import Settings
from .strings import EVALUATION, held_out

Array = np.ndarray
FINE = 16  # points of the spectrum per step of the curve


def frequency(curves: Float[Array, "n t"]) -> Float[Array, "n"]:
    """The frequency of the highest peak of the spectrum, in cycles per step, with zero padding and a Hann window.

    >>> frequency(np.cos(2 * np.pi * 0.2 * np.arange(40))[None]).round(2).tolist()
    [0.2]
    """
    x = (curves - curves.mean(-1, keepdims=True)) * np.hanning(curves.shape[-1])
    power = np.abs(np.fft.rfft(x, FINE * curves.shape[-1])) ** 2
    return power.argmax(-1) / (FINE * curves.shape[-1])


def turned(ones: Int[Array, "n"], n: int, offset: float) -> Int[Array, "n t"]:
    """What a turning state says after steps 1..n: the parity of the half circles, begun at `offset`.

    >>> turned(np.array([2]), 4, 0.5).tolist()
    [[1, 1, 0, 0]]
    """
    t = np.arange(1, n + 1)
    return np.asarray(np.floor(ones[:, None] * t / n + offset).astype(int) % 2)


def read_rotation(model: Any, settings: Settings) -> dict[str, Any]:
    """How much of what the model says on the way, on test strings, is an automaton's running parity, or a turn."""
    rng = np.random.default_rng([settings.seed, EVALUATION, 2])
    n, strings = settings.test, held_out(settings, settings.test, settings.tests)
    mixed = ["".join(rng.permutation(list(s))) for s in strings]
    bits = bits_of(strings)
    u, v = unroll(model, strings, n), unroll(model, mixed, n)
    say, say_mixed = (np.asarray(x.logits[..., 1] > x.logits[..., 0]).astype(int) for x in (u, v))
    ones = bits.sum(1)
    half = len(strings) // 2
    offsets = np.arange(0, 2, 1 / 16)
    best = max(offsets, key=lambda c: (turned(ones[:half], n, c) == say[:half]).mean())
    found = frequency(u.logits[..., 1] - u.logits[..., 0])
    expected = ones / (2 * n)
    varied = found.std() > 0 and expected.std() > 0
    return {
        "count": len(strings),
        "says the running parity, first to last": share(np.cumsum(bits, axis=1) % 2, say),
        "says the running parity, last to first": share(np.cumsum(bits[:, ::-1], axis=1) % 2, say),
        "says the same of the bits in another order": share(say_mixed, say),
        "says what a turning state says": share(turned(ones[half:], n, best), say[half:]),
        "offset": float(best),
        "frequency, correlation with ones / 2n": float(np.corrcoef(found, expected)[0, 1]) if varied else None,
        "frequency, median error": float(np.median(np.abs(found - expected))),
    }


def share(a: Array, b: Array) -> float:
    """The share of entries in which two arrays agree."""
    return float((a == b).mean())


def bits_of(strings: Sequence[str]) -> Int[Array, "n t"]:
    """Strings of one length as numbers."""
    return np.array([[int(b) for b in s] for s in strings])
