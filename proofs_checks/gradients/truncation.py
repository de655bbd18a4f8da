"""Truncated backpropagation keeps the last k step gradients as they are and sets the others to zero.

    phi_t(truncated to k) = phi_t for r - k < t <= r, and 0 for t <= r - k

for an example read out at step r: the state that enters step r - k + 1 is a constant, and phi_t needs only
d loss / d h_t, which comes from the steps after t. So the labels stay those of the forward pass, and the kept steps
sum to the gradient of the truncated loss, not to the whole gradient, unless k >= r.

Decided in float64. Zeros without tolerance, kept steps bit for bit against the untruncated backward pass; and, with
no backward pass at all, by complex steps: each kept phi_t is the derivative by the copy of w that step t uses in the
untruncated model, and their sum the derivative by all copies when the imaginary part of that state is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..machinery.looped_models import Array, Case, along, cases, largest, matches, step_gradients
from ..machinery.statement import Verdict, statement

Truncated = Callable[[Case, int], dict[str, Array]]  # the case and k -> phi


def by_bptt(case: Case, k: int) -> dict[str, Array]:
    return step_gradients(case.changed(bptt=k))


def _one_step_more(case: Case, k: int) -> dict[str, Array]:
    return by_bptt(case, k + 1)


def _one_step_less(case: Case, k: int) -> dict[str, Array]:
    return by_bptt(case, max(k - 1, 1))


def _counted_from_one(case: Case, k: int) -> dict[str, Array]:
    """The k backward calls labelled 1 to k, as a counter that sees only them would."""
    moved = {}
    for name, phi in by_bptt(case, k).items():
        moved[name] = np.zeros_like(phi)
        for i, r in enumerate(case.readout):
            kept = phi[i, max(r - k, 0) : r]
            moved[name][i, : len(kept)] = kept
    return moved


def _counted_from_tau(case: Case, k: int) -> dict[str, Array]:
    """The last k of all steps kept, whatever the read-out."""
    kept = np.arange(case.config.tau) >= case.batch["tau"][:, None] - k  # (n, tau)
    return {name: phi * kept.reshape(*kept.shape, *[1] * (phi.ndim - 2)) for name, phi in step_gradients(case).items()}


def _holds(case: Case, claim: Truncated, k: int) -> Iterator[tuple[bool, str]]:
    phi, whole = claim(case, k), step_gradients(case)
    cut, size, rng = case.changed(bptt=k), largest(whole), np.random.default_rng(3)
    lost = np.zeros(len(case.readout))
    for name in whole:
        v = rng.normal(size=phi[name].shape[2:])
        alone = np.stack([along(case, name, v, steps=(t,)) for t in range(1, case.config.tau + 1)], axis=1)
        for i, r in enumerate(case.readout):
            first = max(r - k, 0)  # index of the first kept step
            where = f"{case.name}, {name}, example {i}, read out at step {r}, k={k}"
            yield not phi[name][i, :first].any(), f"{where}: a gradient at a step that was cut"
            same = np.array_equal(phi[name][i, first:], whole[name][i, first:])
            yield same, f"{where}: a kept step has another gradient than without truncation"
            close = matches(phi[name][i, first:r], v, alone[i, first:r], size)
            yield close, f"{where}: a kept step is not the derivative by its copy of the weights"
        total = phi[name].sum(axis=1)
        yield matches(total, v, along(cut, name, v), size), f"{case.name}, {name}, k={k}: not the truncated gradient"
        lost += np.abs(total - whole[name].sum(axis=1)).reshape(len(total), -1).sum(axis=1)
    yield bool(((lost > 1e-3 * size) == (case.readout > k)).all()), f"{case.name}, k={k}: conserved when it cannot be"


@statement(
    "steps.truncation",
    paper="Appendix on the chat model, truncated backpropagation",
    method="float64",
    claim=by_bptt,
    mutants={
        "steps labelled 1 to k": _counted_from_one,
        "one step more": _one_step_more,
        "one step less": _one_step_less,
        "counted back from tau": _counted_from_tau,
    },
)
def truncation_keeps_the_last_steps(claim: Truncated, thorough: bool) -> Verdict:
    """Truncated to k steps, phi_t is unchanged for r - k < t <= r and zero before; the sum is g only if k >= r."""
    return Verdict.all(
        held
        for case in cases(thorough)
        for k in (range(1, case.config.tau + 1) if thorough else (1, 2, case.config.tau))
        for held in _holds(case, claim, k)
    )
