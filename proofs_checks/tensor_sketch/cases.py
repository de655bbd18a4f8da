"""The eight cases of the proof of TensorSketch's variance, each by itself.

Var <T X, T Y> is a sum over (i, k, i', k') of rows and (j, l, j', l') of columns of

    E[s(i) s(k) s(i') s(k')] E[s'(j) s'(l) s'(j') s'(l')] P(both pairs meet) X_ij Y_kl X_i'j' Y_k'l'.

The signs' means are 1 if the four indices are of a pattern

    A  i = k and i' = k'        B  i = i' != k = k'        C  i = k' != k = i'

and 0 if of none, so there are nine cases of rows and columns, of which (A, A) is the mean. For each of the other eight
the proof has a probability, the same for all its indices, and a closed form T of its sum:

    1 (A, B)   1/m     |X^T Y|^2 - |diag X^T Y|^2             5 (A, C)  1/m  tr((X^T Y)^2) - |diag X^T Y|^2
    2 (C, B)   c/m^2   T1 - tr(XX^T o YY^T) + <XoX, YoY>      6 (C, A)  1/m  tr((X^T Y)^2) - |diag X Y^T|^2
    3 (B, A)   1/m     |X Y^T|^2 - |diag X Y^T|^2             7 (B, B)  1/m  |X|^2 |Y|^2 - both traces + <XoX, YoY>
    4 (B, C)   c/m^2   T3 - tr(X^T X o Y^T Y) + <XoX, YoY>    8 (C, C)  1/m  <X, Y>^2 - both |diag|^2 + <XoX, YoY>

Decided exactly on 4 x 4, which settles every size: each T as a polynomial against the sum over its case written out as
coefficients, each probability counted over all m^4 buckets of rows and as many of columns, the patterns against the
signs' means over all signs. Then (c/m^2) (T2 + T4) and (1/m) of the others are what the library has for the variance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from sdi.sketch import bounds

from ..machinery.biquadratic import Form, disagreement, points
from ..machinery.moments import all_buckets, all_signs
from ..machinery.statement import Verdict, statement

Array = np.ndarray
N = 4
SIDES = dict(enumerate(map(tuple, ("AB", "CB", "BA", "BC", "AC", "CA", "BB", "CC")), start=1))  # of rows, of columns


class Part(NamedTuple):
    """A case as the proof has it: its closed form, and the probability that both pairs meet, for each m."""

    T: Callable[[Array, Array], Any]
    probability: Callable[[int], Fraction]


def _sum(x: Array) -> Any:
    return x.sum((-1, -2))


def _diagonal(x: Array) -> Any:
    return (x.diagonal(axis1=-2, axis2=-1) ** 2).sum(-1)


def t1(X: Array, Y: Array) -> Any:
    A = X.swapaxes(-1, -2) @ Y
    return _sum(A**2) - _diagonal(A)


def t5(X: Array, Y: Array) -> Any:
    A = X.swapaxes(-1, -2) @ Y
    return _sum(A * A.swapaxes(-1, -2)) - _diagonal(A)


def t2(X: Array, Y: Array) -> Any:
    return t1(X, Y) - _rows(X, Y) + _sum(X * X * Y * Y)


def t7(X: Array, Y: Array) -> Any:
    return _sum(X * X) * _sum(Y * Y) - _rows(X, Y) - _rows(*_turned(X, Y)) + _sum(X * X * Y * Y)


def t8(X: Array, Y: Array) -> Any:
    diagonals = _diagonal(X.swapaxes(-1, -2) @ Y) + _diagonal(X @ Y.swapaxes(-1, -2))
    return _sum(X * Y) ** 2 - diagonals + _sum(X * X * Y * Y)


def _rows(X: Array, Y: Array) -> Any:
    """tr(X X^T o Y Y^T)."""
    return ((X * X).sum(-1) * (Y * Y).sum(-1)).sum(-1)


def _turned(X: Array, Y: Array) -> tuple[Array, Array]:
    return X.swapaxes(-1, -2), Y.swapaxes(-1, -2)


def _of_columns(T: Callable[[Array, Array], Any]) -> Callable[[Array, Array], Any]:
    return lambda X, Y: T(*_turned(X, Y))


def once(m: int) -> Fraction:
    return Fraction(1, m)


def both(m: int) -> Fraction:
    return Fraction(bounds.coincidence(m), m * m)


Proof = Mapping[int, Part]
PROOF: Proof = {
    1: Part(t1, once),
    2: Part(t2, both),
    3: Part(_of_columns(t1), once),
    4: Part(_of_columns(t2), both),
    5: Part(t5, once),
    6: Part(_of_columns(t5), once),
    7: Part(t7, once),
    8: Part(t8, once),
}


def patterns() -> dict[str, Array]:
    """Which (i, k, i', k') are of each pattern."""
    i, k, i2, k2 = np.indices((N,) * 4)
    return {
        "A": (i == k) & (i2 == k2),
        "B": (i == i2) & (k == k2) & (i != k),
        "C": (i == k2) & (k == i2) & (i != k),
    }


def meetings(m: int) -> Array:
    """How many of the m^4 buckets of rows and m^4 of columns make both pairs meet: (i, k, i', k', j, l, j', l')."""
    h = all_buckets(N, m)
    gaps = (h[:, :, None] - h[:, None, :]) % m  # (hashes, i, k)
    counts = np.zeros((N**4, m * m), dtype=np.int64)
    for t, (i, k, i2, k2) in enumerate(product(range(N), repeat=4)):
        counts[t] = np.bincount(gaps[:, i, k] * m + gaps[:, i2, k2], minlength=m * m)
    value = np.arange(m * m)
    opposite = (-(value // m) % m) * m + (-value % m)
    return (counts @ counts[:, opposite].T).reshape((N,) * 8)


def _signs() -> Iterator[tuple[Any, str]]:
    s = all_signs(N)
    means = np.einsum("zi,zk,zp,zq->ikpq", s, s, s, s)
    found = patterns()
    yield np.array_equal(means, len(s) * sum(found.values())), "the signs have another mean than the three patterns say"


def _cases(claim: Proof, thorough: bool) -> Iterator[tuple[Any, str]]:
    yield from _signs()
    found = patterns()
    widths = range(1, 9 if thorough else 7)
    counted = {m: meetings(m) for m in widths}
    for case, (rows, cols) in SIDES.items():
        inside = np.multiply.outer(found[rows], found[cols])  # i, k, i', k', j, l, j', l'
        c = inside.astype(np.int64).transpose(0, 4, 2, 6, 1, 5, 3, 7).reshape(N**4, N**4)
        text = disagreement(Form(c, 1), claim[case].T, (N, N), points(N * N), points(N * N))
        yield not text, f"case {case}, ({rows}, {cols}): {text}"
        for m in widths:
            share = {Fraction(int(x), m ** (2 * N)) for x in np.unique(counted[m][inside])}
            said = claim[case].probability(m)
            yield share == {said}, f"case {case}, m={m}: claimed {said}, both pairs meet with {sorted(share)}"
    X, Y = np.random.default_rng(0).integers(-4, 5, (2, 50, N, N))
    first, second = bounds.tensor_sketch_terms(X, Y)
    T = {case: part.T(X, Y) for case, part in claim.items()}
    yield np.array_equal(T[2] + T[4], first), "cases 2 and 4 are not the library's P1 - N1"
    rest = sum(T[case] for case in (1, 3, 5, 6, 7, 8))
    yield np.array_equal(rest, second), "the other cases are not the library's P2 - N2"


def _with(case: int, T: Callable[[Array, Array], Any] | None = None, probability: Any = None) -> Proof:
    true = PROOF[case]
    return {**PROOF, case: Part(T or true.T, probability or true.probability)}


@statement(
    "tensor_sketch.cases",
    paper="Appendix on sketches, proof of the TensorSketch lemma, the eight cases",
    method="exact",
    claim=PROOF,
    mutants={
        "case 1 with its diagonal": _with(1, lambda X, Y: _sum((X.swapaxes(-1, -2) @ Y) ** 2)),
        "case 2 is case 1": _with(2, t1),
        "case 2 with 2/m^2 for odd m, as the proof assumes": _with(2, probability=lambda m: Fraction(2, m * m)),
        "case 3 is case 1": _with(3, t1),
        "case 4 without <X o X, Y o Y>": _with(4, lambda X, Y: PROOF[4].T(X, Y) - _sum(X * X * Y * Y)),
        "case 4 with 1/m": _with(4, probability=once),
        "case 5 with a norm for its trace": _with(5, t1),
        "case 6 with case 5's diagonal": _with(6, t5),
        "case 7 with one trace only": _with(7, lambda X, Y: t7(X, Y) + _rows(X, Y)),
        "case 8 is case 7": _with(8, t7),
        "case 8 with 1/m^2": _with(8, probability=lambda m: Fraction(1, m * m)),
    },
)
def eight_cases_are_right(claim: Proof, thorough: bool) -> Verdict:
    """Each of the proof's eight cases has the sum and the probability it says, and together they are the variance."""
    return Verdict.all(_cases(claim, thorough), "identities of polynomials; probabilities counted")
