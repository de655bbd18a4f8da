"""pull_back: vectors at the end of training pulled back through its updates, to every example's weight.

An adjoint is a vector lambda that belongs to the state after an update: the derivative of some number, such as a
query's loss, by that state. Going back over update k, with state s, gradient
g(theta, w) = sum_i w_i grad loss_i(theta) / n and s' = U(s, g):

    mu     = (dU/dg)^T lambda           what the gradient of this update does to the number
    dw_i  += <grad loss_i, mu> / n      and with it each example's weight; for a loop step, <phi_i[s], mu> / n
    lambda = (dU/ds)^T lambda, and at its weights + H mu

H is the Hessian of the batch's loss. Its product with mu and all dw_i come from one backward pass through the gradient,
which is differentiated by theta and by the weights of examples at once. Adjoints are independent of one another, share
the forward pass and the gradient, and are pulled back as one batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from sdi.errors import AuditError, NonFiniteError

from ..guard.restore_model import unharmed
from .batch_gradient import losses_of, recorded_random_numbers, weighted_gradient
from .placed import Vector
from .replay import Replay
from .update import State, update


@dataclass
class Pulled:
    """Derivatives by the weight of each of n training examples, for A adjoints; slot 0 is outside the loop."""

    whole: Float[np.ndarray, "A n"]
    by_slot: Float[np.ndarray, "A n slots"] | None  # by the weight of one loop step of an example, if asked for
    norms: Float[np.ndarray, "updates A"]  # of the adjoints after each update of the window: how they grow
    at: dict[int, Float[np.ndarray, "A n"]] = field(default_factory=dict)  # `whole` of shorter windows
    seconds: float = 0.0  # of CPU


def pull_back(
    replay: Replay,
    at_end: Float[Tensor, "A D"],
    *,
    steps: bool = False,
    windows: Collection[int] = (),
    chunk: int = 16,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> Pulled:
    """Pull adjoints of the weights that queries see back through all updates that the replay keeps states of.

    replay: the training run. at_end: the adjoints. steps: also by the weight of every loop step of an example.
    windows: numbers of last updates after which the derivatives so far are noted. chunk: adjoints in one batch.
    tell: called after every update with how many are done, of how many.
    """
    run, count = replay.run, len(at_end)
    began = time.process_time()
    slots = len(replay.last)
    adjoints = at_end.new_zeros(count, slots, at_end.shape[1])
    adjoints[:, 0 if run.memories is None else -1] = at_end
    pulled = Pulled(np.zeros((count, len(run.ids))), None, np.zeros((run.updates - replay.first, count)))
    with unharmed(replay.placed.model):
        for k, state in replay.backwards():
            pulled.norms[k - replay.first] = adjoints.flatten(1).norm(dim=1).double().cpu().numpy()
            adjoints = _one_update(replay, k, state, adjoints, pulled, steps, chunk)
            if not bool(torch.isfinite(adjoints).all()):
                raise NonFiniteError(
                    f"the adjoints are not finite before update {k}: training is not smooth that far back; take a "
                    f"window of fewer than {run.updates - k} updates"
                )
            if run.updates - k in windows:
                pulled.at[run.updates - k] = pulled.whole.copy()
            tell(run.updates - k, run.updates - replay.first)
    pulled.seconds = time.process_time() - began
    return pulled


def _one_update(
    replay: Replay, k: int, state: State, adjoints: Float[Tensor, "A slots D"], pulled: Pulled, steps: bool, chunk: int
) -> Float[Tensor, "A slots D"]:
    """The adjoints before update k; what falls out for each example is added to `pulled`."""
    run, rows, share = replay.run, replay.run.rows(k), replay.run.share(k)
    theta = state[0].detach().requires_grad_()
    weight = torch.full((len(rows),), share, dtype=theta.dtype, device=theta.device, requires_grad=True)
    with torch.enable_grad():
        gradient, slots = _graph_of_gradient(replay, k, theta, weight, steps)
        before, taken = state.detach().requires_grad_(), gradient.detach().requires_grad_()
        after = update(run, k, before, taken, replay.placed.sizes)
    out: list[Tensor] = []
    for lam in torch.split(adjoints, chunk):
        lam, mu = _products(after, (before, taken), lam)
        if gradient.requires_grad:
            bent, each = _products(gradient, (theta, weight), mu)
            first = sum(len(part) for part in out)
            if first == 0 and k in (replay.first, run.updates - 1):
                check_products(replay, k, state[0], weight.detach(), mu[0], bent[0], each[0])
            lam[:, 0] += bent
            _add(pulled.whole[first : first + len(lam)], rows, each * share)
            if steps:
                _add_steps(pulled, first, rows, slots, weight, mu, share)
        elif bool(taken.any()):
            raise AuditError(f"the gradient of update {k} cannot be differentiated at all: its graph is cut")
        out.append(lam)
    return torch.cat(out)


def _graph_of_gradient(
    replay: Replay, k: int, theta: Vector, weight: Float[Tensor, "n"], steps: bool
) -> tuple[Vector, dict[int, Vector]]:
    """The gradient of update k as a function of weights and of the parts of examples: whole and, if asked, by slot."""
    run, placed = replay.run, replay.placed
    of: dict[int, Vector] = {} if steps else {0: theta}
    placing = placed.weights_at(lambda t: of.setdefault(t, theta.view_as(theta))) if steps else placed.weights(theta)
    with sdpa_kernel(SDPBackend.MATH), placing:  # other kernels of attention cannot be differentiated twice
        with recorded_random_numbers(run, k):
            losses = losses_of(run, placed, run.batch(k).batch, len(weight))
        parts = torch.autograd.grad(losses, list(of.values()), weight, create_graph=True, allow_unused=True)
    slots = {t: g for t, g in zip(of, parts, strict=True) if g is not None}
    return (torch.stack(list(slots.values())).sum(dim=0) if steps else slots[0]), slots


def check_products(
    replay: Replay, k: int, theta: Vector, weight: Tensor, mu: Vector, bent: Vector, each: Tensor
) -> None:
    """Compare H mu and the products with examples' gradients with differences of the gradient that training takes.

    They differ where the graph of the gradient is cut: truncated backpropagation, steps under no_grad, functions whose
    backward pass cannot be differentiated.
    """
    h, most = (1e-6, 1e-3) if theta.dtype == torch.float64 else (3e-3, 0.2)  # small, because of kinks such as ReLU's
    generator = torch.Generator().manual_seed(k)
    u, z = (torch.randn(x.shape, generator=generator).to(x) for x in (theta, weight))
    u, z = u * theta.std(), z * weight.abs().mean()
    ahead, behind = (
        weighted_gradient(replay.run, replay.placed, k, theta + s * h * u, weight + s * h * z) for s in (1, -1)
    )
    real = float(((ahead - behind) / (2 * h)).double() @ mu.double())
    said = float(bent.double() @ u.double() + each.double() @ z.double())
    size = float((bent * u).double().norm() + (each * z).double().norm() + ((ahead - behind) / (2 * h) * mu).norm())
    if abs(real - said) > most * size:
        raise AuditError(
            f"the derivative of the gradient of update {k} is not that of the gradient that training takes: {said:.6g} "
            f"against {real:.6g} by differences; part of its graph is cut (detach, no_grad, truncated backpropagation, "
            "a function that cannot be differentiated twice), or it jumps, so training cannot be differentiated"
        )


def _products(output: Tensor, inputs: tuple[Tensor, ...], vectors: Float[Tensor, "A *shape"]) -> tuple[Tensor, ...]:
    """The products of A vectors with the derivative of `output` by each input; the graph is kept."""
    if len(vectors) > 1:  # a batch of one costs more than one alone
        try:
            return _grad(output, inputs, vectors, batched=True)
        except RuntimeError:  # an operation that does not know batches of gradients: one after another
            pass
    try:
        each = [_grad(output, inputs, v, batched=False) for v in vectors]
    except RuntimeError as error:
        raise AuditError(
            f"the gradient of the loss cannot be differentiated: {str(error).splitlines()[0]}; through_training needs "
            "operations with second derivatives"
        ) from error
    return tuple(torch.stack(parts) for parts in zip(*each, strict=True))


def _grad(output: Tensor, inputs: tuple[Tensor, ...], given: Tensor, batched: bool) -> tuple[Tensor, ...]:
    found = torch.autograd.grad(output, inputs, given, retain_graph=True, is_grads_batched=batched, allow_unused=True)
    lead = given.shape[:1] if batched else ()
    return tuple(x.new_zeros(lead + x.shape) if g is None else g for x, g in zip(inputs, found, strict=True))


def _add(total: Float[np.ndarray, "A n"], rows: np.ndarray, each: Float[Tensor, "A m"]) -> None:
    """Add to the examples of a batch; one that stands in it twice gets both."""
    np.add.at(total.T, rows, each.detach().double().cpu().numpy().T)


def _add_steps(
    pulled: Pulled,
    first: int,
    rows: np.ndarray,
    slots: dict[int, Vector],
    weight: Tensor,
    mu: Float[Tensor, "A D"],
    share: float,
) -> None:
    """The same by slot: <phi_i[s], mu>, the derivative by the weights of <gradient of slot s, mu>."""
    most = max(slots) + 1
    if pulled.by_slot is None or pulled.by_slot.shape[2] < most:
        wider = np.zeros((*pulled.whole.shape, most))
        if pulled.by_slot is not None:
            wider[..., : pulled.by_slot.shape[2]] = pulled.by_slot
        pulled.by_slot = wider
    for t, gradient in slots.items():
        if gradient.requires_grad:
            (each,) = _products(gradient, (weight,), mu)
            _add(pulled.by_slot[first : first + len(mu), :, t], rows, each * share)
