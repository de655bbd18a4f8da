"""A search for the pair on which a set of drawn sketches varies most, and for that on which it is most biased.

For a fixed y, the variance of x . G y over the draws (G = S^T S) is a quadratic form in x: its top eigenvector is the
best x. Then y's turn. Every turn raises the variance; several starts guard against a local maximum. What is found
fits the draws it was sought on, so it must be judged on others.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sdi.validate.pairs import Pair, pair

Array = np.ndarray
TURNS = 6


def most_varying(
    S: Float[Array, "N size D"], weights: Float[Array, "N"], starts: Float[Array, "k D"], shape: tuple[int, ...]
) -> list[Pair]:
    """One pair for every start, and the same pair with x = y."""
    found = []
    for start in starts:
        x = y = start
        for _ in range(TURNS):
            x, y = _best_answer(S, weights, y), x
        found.append(pair("adversarial", _best_answer(S, weights, x).reshape(shape), x.reshape(shape)))
        found.append(pair("adversarial", x.reshape(shape), x.reshape(shape)))
    return found


def most_biased(S: Float[Array, "N size D"], shape: tuple[int, ...]) -> list[Pair]:
    """The singular pair of the largest average error, and the two entries with the largest."""
    d = S.shape[-1]
    average = np.tensordot(S, S, axes=((0, 1), (0, 1))) / len(S) - np.eye(d)
    u, _, vt = np.linalg.svd(average)
    i, j = np.unravel_index(np.abs(average).argmax(), average.shape)
    basis = np.eye(d)
    pairs = ((u[:, 0], vt[0]), (basis[i], basis[j]))
    return [pair("adversarial", x.reshape(shape), y.reshape(shape)) for x, y in pairs]


def variance(S: Float[Array, "N size D"], weights: Float[Array, "N"], chosen: Pair) -> float:
    """Of <S x, S y> over the draws."""
    z = ((S @ chosen.x.ravel()) * (S @ chosen.y.ravel())).sum(axis=1)
    return float(weights @ (z - weights @ z) ** 2)


def _best_answer(S: Array, weights: Array, y: Array) -> Array:
    g = np.einsum("nsd,ns->nd", S, S @ y)  # G y of every draw
    g = (g - weights @ g) * np.sqrt(weights)[:, None]
    wide = len(g) < g.shape[1]
    sizes, vectors = np.linalg.eigh(g @ g.T if wide else g.T @ g)  # of the smaller side: several times faster than svd
    if sizes[-1] <= 0:
        return y  # nothing varies
    top = vectors[:, -1] @ g if wide else vectors[:, -1]
    return np.asarray(top / np.linalg.norm(top))
