"""For a linear map c = W a + b of tokens, the step gradients are sums over tokens:

    phi_W[t] = sum_j outer(delta_tj, a_tj),    phi_b[t] = sum_j delta_tj,    delta_tj = d loss / d c_tj

with d_out d_in + d_out entries in all. Hypothesis: within a step, W and b are used in this map alone.

Decided exactly, in integers, for a looped model of polynomials that mixes tokens and injects an input (see
`polynomial_loop.py`), whose phi and delta are derivatives by their definition: nothing is propagated backwards.
Both sides are polynomials in all entries, of degree below 2^11 up to tau = 4; the entries are drawn from 2^40
integers, so by Schwartz and Zippel a false identity survives a draw with a probability below 2^-29. The claim is the
pullback of the reference's linear map, given delta and a.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from sdi.backends import room

from ..machinery.polynomial_loop import Array, PolynomialLoop
from ..machinery.statement import Verdict, statement

Products = Callable[[Array, Array], tuple[Array, Array]]  # delta (tau, L, d_out), a (tau, L, d_in) -> phi_W, phi_b


def by_pullback(delta: Array, a: Array) -> tuple[Array, Array]:
    """reference/linear.py, with steps in place of examples. The gradient does not depend on the weights' values."""
    weights = {"c.weight": np.zeros((delta.shape[-1], a.shape[-1]), dtype=object), "c.bias": 0 * delta[0, 0]}
    _, grads = room("reference.linear").linear(a, weights, "c")[1](delta)
    return grads["c.weight"], grads["c.bias"]


def _transposed(delta: Array, a: Array) -> tuple[Array, Array]:
    W, b = by_pullback(delta, a)
    return W.swapaxes(1, 2), b


def _mean(delta: Array, a: Array) -> tuple[Array, Array]:
    W, b = by_pullback(delta, a)
    share = Fraction(1, delta.shape[1])
    return W * share, b * share


def _next_delta(delta: Array, a: Array) -> tuple[Array, Array]:
    return by_pullback(np.roll(delta, -1, axis=0), a)


def _bias_of_inputs(delta: Array, a: Array) -> tuple[Array, Array]:
    return by_pullback(delta, a)[0], a.sum(axis=1)


def _cases(claim: Products, thorough: bool) -> Iterator[tuple[bool, str]]:
    sizes = [(2, 2, 2, 3), (3, 2, 2, 3), (2, 3, 3, 2)] + [(4, 3, 4, 3), (3, 3, 3, 4)] * thorough
    for seed, (d_out, d_in, L, tau) in enumerate(sizes):
        model = PolynomialLoop(d_out, d_in, L, tau, seed)
        W, b = claim(model.delta, np.stack(model.run()[1]))
        where = f"d_out={d_out}, d_in={d_in}, L={L}, tau={tau}"
        yield np.array_equal(W, model.phi[0]), f"{where}: W gets another gradient"
        yield np.array_equal(b, model.phi[1]), f"{where}: b gets another gradient"
        entries = W[0].size + b[0].size
        yield entries == d_out * d_in + d_out, f"{where}: {entries} entries"


@statement(
    "gradient.outer_products",
    paper="Main text, proposition on the unrolled gradient, linear maps",
    method="exact",
    claim=by_pullback,
    mutants={
        "outer(a, delta)": _transposed,
        "the mean over tokens": _mean,
        "delta of the next step": _next_delta,
        "b as wide as the input": _bias_of_inputs,
    },
)
def step_gradients_are_outer_products(claim: Products, thorough: bool) -> Verdict:
    """For c = W a + b: phi_W = sum over tokens of outer(delta, a), phi_b = sum of delta; d_out d_in + d_out entries."""
    return Verdict.all(_cases(claim, thorough))
