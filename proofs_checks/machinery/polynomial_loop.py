"""A looped model of polynomials in integers, and its derivatives by their definition.

    a_t = M (h_(t-1) h_(t-1)) + h_(t-1),    c_t = W a_t + b,    h_t = (c_t c_t) V + c_t U + e,    loss = |h_tau - y|^2

M mixes tokens, e is the injected input. phi and delta are derivatives by one entry of W, b or c as a single step uses
it, taken forwards with dual numbers (x + x' eps, eps^2 = 0). The degree of the loss is 338 at tau = 3, 1362 at 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

Array = np.ndarray  # of Python's integers, which do not overflow


@dataclass(frozen=True)
class Dual:
    """x + dx eps."""

    x: Array
    dx: Array

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.x + other.x, self.dx + other.dx)

    def __mul__(self, other: Dual) -> Dual:
        return Dual(self.x * other.x, self.dx * other.x + self.x * other.dx)

    def __matmul__(self, other: Dual) -> Dual:
        return Dual(self.x @ other.x, self.dx @ other.x + self.x @ other.dx)

    @property
    def T(self) -> Dual:
        return Dual(self.x.T, self.dx.T)


def constant(x: Array) -> Dual:
    return Dual(x, 0 * x)


class PolynomialLoop:
    """The model with its entries drawn from 2^40 integers."""

    def __init__(self, d_out: int, d_in: int, L: int, tau: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.tau, self.L, self.d_out, self.d_in = tau, L, d_out, d_in

        def draw(*shape: int) -> Array:
            return rng.integers(-(2**39), 2**39, size=shape).astype(object)

        self.W, self.b, self.M = draw(d_out, d_in), draw(d_out), draw(L, L)
        self.U, self.V = draw(d_out, d_in), draw(d_out, d_in)
        self.h0, self.e, self.y = draw(L, d_in), draw(L, d_in), draw(L, d_in)

    def run(self, what: str = "", t: int = 0, index: tuple[int, ...] = ()) -> tuple[int, list[Array]]:
        """The derivative of the loss by one entry of W, b or c as step t alone uses it; and a_1, ..., a_tau."""
        M, U, V = constant(self.M), constant(self.U), constant(self.V)
        h, a_seen = constant(self.h0), []
        for now in range(1, self.tau + 1):
            nudge = {"W": 0 * self.W, "b": 0 * self.b, "c": np.zeros((self.L, self.d_out), dtype=object)}
            if now == t:
                nudge[what][index] = 1
            a = M @ (h * h) + h
            c = a @ Dual(self.W, nudge["W"]).T + Dual(self.b, nudge["b"])
            c = Dual(c.x, c.dx + nudge["c"])
            h = (c * c) @ V + c @ U + constant(self.e)
            a_seen.append(a.x)
        error = h + constant(-self.y)
        return (error * error).dx.sum(), a_seen

    def derivative(self, what: str, shape: tuple[int, ...]) -> Array:
        """The derivatives of the loss by every entry of `what` as each step uses it: (tau, *shape)."""
        out = np.zeros((self.tau, *shape), dtype=object)
        for index in np.ndindex(out.shape):
            out[index] = self.run(what, index[0] + 1, index[1:])[0]
        return out

    @cached_property
    def phi(self) -> tuple[Array, Array]:
        return self.derivative("W", self.W.shape), self.derivative("b", self.b.shape)

    @cached_property
    def delta(self) -> Array:
        return self.derivative("c", (self.L, self.d_out))
