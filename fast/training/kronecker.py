"""Kronecker-factored Fisher matrices of linear maps: F ~ S (x) A, for the weight of every `nn.Linear`.

    A = mean of a a^T        over all rows: a row is a token of an example in one call, so in one loop step
    S = sum of delta delta^T over all rows, by the number of examples

This is K-FAC with the empirical Fisher, as K-FAC-expand: loop steps are tokens that share weights, like others. Rows
whose delta is exactly zero (padding, steps after an example's last) say nothing of F, and do not count. Whose rows are
whose need not be known, so any layout will do. (S (x) A + lambda)^-1 is exact, by eigenvectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..guard.audit import tolerance_of
from ..guard.restore_model import unharmed
from .batch_gradient import losses_of, recorded_random_numbers
from .example_gradients import first_met
from .placed import Placed, Vector
from .replay import Replay

NO_LINEAR = (
    "precondition='kronecker' needs a linear map whose weight is trained: no calls of an nn.Linear make up the "
    "gradient of its weight; take 'fisher'"
)


class Factors:
    """S and A of one weight (d_out, d_in), added up call by call."""

    def __init__(self, weight: Tensor) -> None:
        d_out, d_in = weight.shape
        self.S, self.A = weight.new_zeros(d_out, d_out), weight.new_zeros(d_in, d_in)
        self.gradient, self.size = weight.new_zeros(d_out, d_in), 0.0  # what the calls make up, and how large it may be
        self.rows = 0

    def add(self, a: Float[Tensor, "... d_in"], delta: Float[Tensor, "... d_out"]) -> None:
        a, delta = a.detach().reshape(-1, a.shape[-1]), delta.detach().reshape(-1, delta.shape[-1])
        reached = (delta != 0).any(dim=1)
        a, delta = a[reached], delta[reached]
        self.S += delta.T @ delta
        self.A += a.T @ a
        self.gradient += delta.T @ a
        self.size += float((delta.norm(dim=1) * a.norm(dim=1)).sum())
        self.rows += len(a)

    def inverse(self, n: int, damping: float) -> Callable[[Float[Tensor, "A d"]], Float[Tensor, "A d"]]:
        """v -> (S (x) A + lambda)^-1 v of n examples; lambda = damping x the mean diagonal. Zero if nothing arrived."""
        s, U = torch.linalg.eigh(self.S / n)
        a, V = torch.linalg.eigh(self.A / max(1, self.rows))
        eigenvalues = s.clamp(min=0)[:, None] * a.clamp(min=0)
        level = damping * float(eigenvalues.mean())

        def times(v: Float[Tensor, "A d"]) -> Float[Tensor, "A d"]:
            if level == 0:
                return torch.zeros_like(v)
            turned = U.T @ v.view(-1, *eigenvalues.shape) @ V / (eigenvalues + level)
            return (U @ turned @ V.T).flatten(1)

        return times


def kronecker_factors(replay: Replay, weights: Vector) -> dict[str, Factors]:
    """The factors of each linear map's weight, by parameter name, over all training examples at `weights`.

    Only of weights whose gradient is made up of calls of `nn.Linear`: not of one that is an embedding, too, or is used
    without a call.
    """
    run, placed = replay.run, replay.placed
    factors: dict[str, Factors] = {}
    missed: dict[str, float] = {}
    with unharmed(placed.model):
        for k, fresh in first_met(run):
            theta = weights.detach().requires_grad_()
            examples = run.batch(k)
            n = len(examples.ids)
            with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), placed.weights(theta), _watched(placed, factors):
                before = {name: f.gradient.clone() for name, f in factors.items()}
                with recorded_random_numbers(run, k):
                    losses = losses_of(run, placed, examples.batch, n)
                chosen = torch.zeros_like(losses)
                chosen[fresh] = 1
                whole = placed.named(torch.autograd.grad(losses, theta, chosen)[0])
            for name, f in factors.items():
                off = whole[name] - f.gradient + before[name]
                missed[name] = missed.get(name, 0.0) + float(off.norm())
    most = tolerance_of({weights.dtype})
    made_up = {name: f for name, f in factors.items() if missed[name] <= most * f.size}
    if not made_up:
        raise ValueError(NO_LINEAR)
    return made_up


@contextmanager
def _watched(placed: Placed, factors: dict[str, Factors]) -> Iterator[None]:
    """Calls of linear maps add to the factors of their weights, in the backward pass."""

    def watch(name: str) -> Callable[..., None]:
        def called(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
            a = args[0] if args else kwargs["input"]
            if output.requires_grad:
                output.register_hook(lambda delta: factors[name].add(a, delta))  # type: ignore[no-untyped-call]

        return called

    with ExitStack() as stack:
        for module, local, name in placed.places:
            if local == "weight" and isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward:
                if name not in factors:
                    factors[name] = Factors(getattr(module, local).detach())
                handle = module.register_forward_hook(watch(name), with_kwargs=True)
                stack.callback(handle.remove)
        yield
