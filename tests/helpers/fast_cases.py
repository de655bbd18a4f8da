"""An oracle for the step gradients of `looped_models`, and what tests of the fast backend compare and watch.

The oracle runs each example alone, with plain autograd, on a loop whose every step has its own copy of the weights: the
gradient of step t's copy is the definition of phi[t]. It shares no code with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.utils.checkpoint
from looped_models import BODY, LOOP, Looped, make_xy, square_loss
from torch import Tensor, nn

from sdi import Features, Loop
from sdi.fast import featurize
from sdi.validate.agreement import far, row_norms


def example(batch: Any, i: int) -> Any:
    return {k: v[i : i + 1] if isinstance(v, Tensor) else v for k, v in batch.items()}


Truth = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


def step_truth(model: Looped, loss: Callable[..., Tensor], batch: Any, tau: int) -> Truth:
    """phi (n, tau, *shape) and outside (n, *shape) of every parameter of core and norm."""
    n = len(batch["x"])
    names = [name for name, _ in model.named_parameters() if name.startswith(("core.", "norm."))]
    phi = {name: np.zeros((n, tau + 1, *model.get_parameter(name).shape)) for name in names}
    for i in range(n):
        copies = [{k: model.get_parameter(k).detach().clone().requires_grad_() for k in names} for _ in range(tau + 1)]
        model.weights_at = copies
        try:
            value = loss(model, example(batch, i)).sum()
        finally:
            model.weights_at = None
        flat = [w for copy in copies for w in copy.values()]
        grads = iter(torch.autograd.grad(value, flat, allow_unused=True))
        for t in range(tau + 1):
            for name in names:
                part = next(grads)
                if part is not None:
                    phi[name][i, t] = part
    return {k: v[:, :-1] for k, v in phi.items()}, {k: v[:, -1] for k, v in phi.items()}


def assert_near(x: np.ndarray, y: np.ndarray, size: np.ndarray, what: str, rtol: float = 1e-10) -> None:
    """Equal to rtol of `size`, one number per row: the norm of all that was summed there."""
    wrong = far(x, y, size, what, rtol)
    assert wrong is None, wrong


def assert_is_truth(features: Features, truth: Truth, rtol: float = 1e-10) -> None:
    phi, outside = truth
    names = [b.name for b in features.blocks]
    assert set(names) == set(phi)
    values = np.concatenate([phi[name].reshape(*phi[name].shape[:2], -1) for name in names], axis=-1)
    rest = np.concatenate([outside[name].reshape(len(outside[name]), -1) for name in names], axis=-1)
    size = row_norms(values) + row_norms(rest)
    assert_near(features.values, values, size, "phi", rtol)
    assert_near(np.zeros_like(rest) if features.outside is None else features.outside, rest, size, "outside", rtol)


def body_of(model: Looped) -> Loop:
    has_norm = any(True for _ in model.norm.parameters())
    return LOOP if has_norm else BODY


def state(model: nn.Module) -> dict[str, Any]:
    """Everything about a model, and about torch, that a run might leave changed."""
    modules = dict(model.named_modules())
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    ck = torch.utils.checkpoint
    return {
        "hooks": {(n, h): list(getattr(m, h)) for n, m in modules.items() for h in hooks},
        "modes": {n: (m.training, sorted(vars(m))) for n, m in modules.items()},
        "flags": {n: (p.requires_grad, id(p.grad), id(p)) for n, p in model.named_parameters()},
        "grads": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "weights": [p.detach().clone() for p in model.parameters()],
        "buffers": {n: (id(b), b.clone()) for n, b in model.named_buffers()},
        "random": torch.get_rng_state(),
        "torch": (ck.CheckpointFunction, ck._checkpoint_without_reentrant_generator, torch.is_grad_enabled()),
    }


def same(x: Any, y: Any) -> bool:
    if isinstance(x, Tensor):
        return isinstance(y, Tensor) and torch.equal(torch.nan_to_num(x), torch.nan_to_num(y))
    if isinstance(x, dict):
        return list(x) == list(y) and all(same(x[k], y[k]) for k in x)
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(same, x, y))
    return bool(x == y)


@contextmanager
def leaving_as_it_came(model: nn.Module) -> Iterator[None]:
    before = state(model)
    try:
        yield
    finally:
        after = state(model)
        for what in before:
            assert same(before[what], after[what]), f"{what} changed"


def features_of(model: Looped, batch: Any, loss: Callable[..., Tensor] = square_loss, **options: Any) -> Features:
    with leaving_as_it_came(model):
        loop = options.pop("loop", None) or body_of(model)
        return featurize(model, loss, batch, loop=loop, **options)


def batch_second_loss(model: nn.Module, batch: Any) -> Tensor:
    """x and y come as (L, n, .)."""
    return (model(batch["x"]) - batch["y"]).square().mean(dim=(0, 2))


def batch_second(n: int = 3) -> dict[str, Tensor]:
    return {k: v.transpose(0, 1).contiguous() for k, v in make_xy(n).items()}
