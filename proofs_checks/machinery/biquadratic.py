"""Forms that are quadratic in X and quadratic in Y, in exact integers, and how to tell two of them apart.

Polarisation: the coefficient of X_u^2 is the form's value at e_u, and the coefficient of X_u X_u' is its value at
e_u + e_u' less those at e_u and e_u'. The same holds for Y. So the values at the n (n + 1) / 2 points e_u and
e_u + e_u', squared for X and Y, fix every coefficient: two biquadratic forms that agree there are one polynomial,
and agree for all real X and Y. Scaling the points by a nonzero number changes nothing in this.

A claimed formula is compared at those points scaled by m, where a variance over m^2 is an integer: a float64 there
is either exactly that integer or wrong, so a formula that divides can be held against integers without tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from jaxtyping import Int

Array = np.ndarray
SAFE = 2**62


@dataclass(frozen=True, eq=False)
class Form:
    """sum over u, u', v, v' of c[(u, u'), (v, v')] X_u X_u' Y_v Y_v' / denominator."""

    c: Int[Array, "uu vv"]
    denominator: int

    @classmethod
    def reduced(cls, c: Int[Array, "uu vv"], denominator: int) -> Form:
        """The form c / denominator, with the common factor of all coefficients and the denominator taken out."""
        common = gcd(int(np.gcd.reduce(np.abs(c), axis=None)), denominator)
        return cls(c // common, denominator // common)

    @classmethod
    def square(cls, bilinear: Int[Array, "u v"], denominator: int) -> Form:
        """(X^T B Y / denominator)^2."""
        c = np.einsum("uv,wz->uwvz", bilinear, bilinear).reshape(bilinear.shape[0] ** 2, -1)
        return cls.reduced(c, denominator**2)

    def __sub__(self, other: Form) -> Form:
        scale = self.denominator * other.denominator
        if scale * max(int(np.abs(self.c).max()), int(np.abs(other.c).max()), 1) > SAFE:
            raise OverflowError(f"the difference of two forms over {self.denominator} and {other.denominator}")
        return Form.reduced(self.c * other.denominator - other.c * self.denominator, scale)

    def numerators(self, X: Int[Array, "p n"], Y: Int[Array, "q n"]) -> Any:
        """denominator times the form, at every X with every Y."""
        dtype: Any = np.int64
        if int(np.abs(self.c).sum()) * int(np.abs(X).max()) ** 2 * int(np.abs(Y).max()) ** 2 > SAFE:
            dtype = object
        XX, YY = (np.einsum("pu,pw->puw", P, P).reshape(len(P), -1).astype(dtype) for P in (X, Y))
        return XX @ self.c.astype(dtype) @ YY.T


def points(n: int, scale: int = 1) -> Int[Array, "n(n+1)/2 n"]:
    """scale e_u and scale (e_u + e_u'): where the values of a quadratic form fix it.

    >>> points(2).tolist()
    [[1, 0], [1, 1], [0, 1]]
    """
    basis = np.eye(n, dtype=np.int64)
    return scale * np.array([basis[u] + (basis[w] if w > u else 0) for u in range(n) for w in range(u, n)])


def disagreement(
    form: Form,
    claim: Callable[[Array, Array], Any],
    shape: tuple[int, ...],
    X: Int[Array, "p n"],
    Y: Int[Array, "q n"],
) -> str:
    """Where the claim, called with batches of integer arrays of this shape, differs from the form; "" if nowhere."""
    said = np.asarray(claim(X.reshape(-1, 1, *shape), Y.reshape(1, -1, *shape)))
    truth = form.numerators(X, Y)
    whole = np.rint(said.astype(np.float64)).astype(np.int64)
    wrong = (whole != said) | (whole * form.denominator != truth)
    if not wrong.any():
        return ""
    p, q = np.argwhere(wrong)[0]
    exact = f"{truth[p, q]}/{form.denominator}" if form.denominator > 1 else f"{truth[p, q]}"
    return f"X={X[p].reshape(shape).tolist()}, Y={Y[q].reshape(shape).tolist()}: claimed {said[p, q]}, is {exact}"
