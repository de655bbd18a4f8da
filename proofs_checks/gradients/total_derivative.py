"""The gradient of the body is the sum of its step gradients.

    d loss / d w = sum_t phi_t,    phi_t = (d loss / d h_t) (dF / d w at step t, with h_(t-1) and the input constant)

for any looped model h_t = F(h_(t-1), e; w) that is differentiable in w and h, with loss a function of one h_r.

Decided in float64 without backpropagation: phi_t by its definition, a complex step of the copy of w that step t
alone uses; the total by a complex step of all copies at once. The reference's phi must agree with the first, step
by step, and its sum with the second: for every entry of every parameter of the smallest model, and along random
directions for every parameter of models with other injections, norms, read-outs and ragged tau.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from math import prod

import numpy as np

from sdi.inputs.looped_config import LoopedConfig

from ..machinery.looped_models import (
    Array,
    Case,
    along,
    cases,
    largest,
    make_batch,
    make_model,
    matches,
    step_gradients,
)
from ..machinery.statement import Verdict, statement

StepGradients = Callable[[Case], dict[str, Array]]
SMALLEST = LoopedConfig(vocab=3, classes=3, d=2, heads=1, tau=3, norm="rms", bias=False)


def _shifted(case: Case) -> dict[str, Array]:
    return {name: np.roll(phi, 1, axis=1) for name, phi in step_gradients(case).items()}


def _last_step_dropped(case: Case) -> dict[str, Array]:
    last = np.arange(case.config.tau) == case.readout[:, None] - 1  # (n, tau)
    return {
        name: np.where(last.reshape(*last.shape, *[1] * (phi.ndim - 2)), 0, phi)
        for name, phi in step_gradients(case).items()
    }


def _state_moves_too(case: Case) -> dict[str, Array]:
    """(d loss / d h_t) (d h_t / d w): what steps 1 to t - 1 did to the state is counted again at step t."""
    return {name: phi.cumsum(axis=1) for name, phi in step_gradients(case).items()}


def _holds(case: Case, claim: StepGradients, directions: int | None) -> Iterator[tuple[bool, str]]:
    """Along so many random directions per parameter; along every entry, if None."""
    phi = claim(case)
    size, rng = largest(phi), np.random.default_rng(7)
    for name, shape in ((name, grad.shape[2:]) for name, grad in phi.items()):
        entries = prod(shape)
        vs = np.eye(entries) if directions is None else rng.normal(size=(directions, entries))
        for v in vs.reshape(-1, *shape):
            where = f"{case.name}, {name}"
            whole = along(case, name, v)
            yield matches(phi[name].sum(axis=1), v, whole, size), f"{where}: the steps do not sum to the gradient"
            for t in range(1, case.config.tau + 1):
                alone = along(case, name, v, steps=(t,))
                yield matches(phi[name][:, t - 1], v, alone, size), f"{where}: not the gradient of step {t} alone"


@statement(
    "gradient.total_derivative",
    paper="Main text, proposition on the unrolled gradient",
    method="float64",
    claim=step_gradients,
    mutants={
        "steps labelled one too late": _shifted,
        "the last step dropped": _last_step_dropped,
        "the state is not held constant": _state_moves_too,
    },
)
def total_derivative_is_the_sum_over_steps(claim: StepGradients, thorough: bool) -> Verdict:
    """d loss / d w = sum over steps of phi_t, the gradient of the copy of w that step t uses, its input constant."""
    smallest = Case("smallest", make_model(SMALLEST, 0), make_batch(SMALLEST, 0))
    others = (_holds(case, claim, directions=5 if thorough else 1) for case in cases(thorough))
    return Verdict.all(chain(_holds(smallest, claim, directions=None), *others))
