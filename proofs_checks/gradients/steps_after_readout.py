"""A step after the read-out leaves no trace in the loss: its gradient is exactly zero, and the others ignore it.

    phi_t = 0 for t > r;    phi_1, ..., phi_r are those of the same example with tau = r

for an example that takes tau steps and is read out at step r.

Decided in float64 against a forward pass that really takes all tau steps, step by step from the reference's layers,
and reads the state of step r: by complex steps, the copy of the weights used at a step t > r has derivative 0.0, and
phi must be 0.0 there too, without tolerance. That the earlier phi do not depend on tau is bit for bit. That the
read-out step itself has a gradient shows that the zeros are not for want of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from sdi.backends import room

from ..machinery.looped_models import Array, Case, H, cases, largest, matches, step_gradients
from ..machinery.statement import Verdict, statement

StepGradients = Callable[[Case], dict[str, Array]]


def _late(case: Case) -> dict[str, Array]:
    later = np.minimum(case.readout + 1, case.batch["tau"])
    return step_gradients(replace(case, batch={**case.batch, "readout": later}))


def _ignored(case: Case) -> dict[str, Array]:
    return step_gradients(replace(case, batch={k: v for k, v in case.batch.items() if k != "readout"}))


def _nearly_zero(case: Case) -> dict[str, Array]:
    return {name: np.where(phi == 0, 1e-300, phi) for name, phi in step_gradients(case).items()}


def _derivative_taking_all_steps(case: Case, i: int, name: str, v: Array, t: int) -> float:
    """Of example i's loss, by the copy of one parameter at step t; all tau steps are taken, step r is read out."""
    c, weights = case.config, case.model.weights
    moved = {**weights, name: weights[name] + 1j * H * v}
    one = {key: x[i : i + 1] for key, x in case.batch.items()}
    e, _ = room("reference.read_in").read_in(one["tokens"], weights, c)
    s = e if c.state == "embedding" else np.zeros_like(e)
    read = s
    for now in range(1, int(one["tau"][0]) + 1):
        s, _ = room("reference.step").step(e, s, moved if now == t else weights, c)
        read = s if now == one["readout"][0] else read
    logits, _ = room("reference.read_out").read_out(read, weights, c)
    return float(room("reference").token_cross_entropy.of_logits(logits, one).imag[0] / H)


def _holds(case: Case, claim: StepGradients) -> Iterator[tuple[bool, str]]:
    phi = claim(case)
    shorter = claim(replace(case, batch={**case.batch, "tau": case.readout}))
    size, rng = largest(phi), np.random.default_rng(5)
    for i, r in enumerate(case.readout):
        where = f"{case.name}, example {i}, read out at step {r} of {case.batch['tau'][i]}"
        for name, grad in phi.items():
            yield not grad[i, r:].any(), f"{where}: {name} has a gradient after it"
            same = np.array_equal(grad[i, :r], shorter[name][i, :r])
            yield same, f"{where}: {name} has other gradients with tau = {r}"
            v = rng.normal(size=grad.shape[2:])
            for t in range(1, case.batch["tau"][i] + 1):
                truth = _derivative_taking_all_steps(case, i, name, v, t)
                yield truth == 0.0 or t <= r, f"{where}: step {t} moves the loss"
                close = matches(grad[i : i + 1, t - 1], v, np.array([truth]), size)
                yield close, f"{where}: {name} has another gradient at step {t}"
        yield any(grad[i, r - 1].any() for grad in phi.values()), f"{where}: no gradient at the read-out step"


def _cases(thorough: bool) -> Iterator[Case]:
    """Read-outs from right before the last step to the first."""
    for case in cases(thorough):
        tau = case.batch["tau"]
        yield replace(case, batch={**case.batch, "readout": np.array([tau[0] - 1, 1, tau[2]])})


@statement(
    "steps.after_readout",
    paper="Appendix on the parity experiment, steps beyond the read-out",
    method="float64",
    claim=step_gradients,
    mutants={
        "read out one step late": _late,
        "the read-out step ignored": _ignored,
        "nearly zero after the read-out": _nearly_zero,
    },
)
def steps_after_the_readout_are_zero(claim: StepGradients, thorough: bool) -> Verdict:
    """phi_t = 0 exactly for every step t after the read-out; the steps up to it do not depend on how many follow."""
    return Verdict.all(held for case in _cases(thorough) for held in _holds(case, claim))
