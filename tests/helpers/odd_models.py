"""Looped models that are right in ways that are easily got wrong, and the oracle they are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from fast_cases import assert_near, row_norms
from looped_models import D, Own, squares
from torch import Tensor, nn

from sdi import Loop

CORE = Loop(body="core", step="core")


def is_truth(features: Any, model: nn.Module, batch: Any, loss: Any = squares, rtol: float = 1e-10) -> None:
    """The total of every example against autograd, on the whole batch: one pullback for each loss."""
    parameters = {b.name: model.get_parameter(b.name) for b in features.blocks}
    for i in range(len(features.ids)):
        torch.manual_seed(3)
        grads = torch.autograd.grad(loss(model, batch)[i], list(parameters.values()), allow_unused=True)
        flat = torch.cat(
            [
                torch.zeros(p.numel()) if g is None else g.to_dense().flatten()
                for g, p in zip(grads, parameters.values(), strict=True)
            ]
        )
        truth = flat.detach().double().numpy()[None]
        assert_near(features.g[i : i + 1], truth, row_norms(truth), f"example {i}", rtol)


class _Unseen(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, w: Tensor) -> Tensor:
        return w.clone()

    @staticmethod
    def backward(ctx: Any, delta: Tensor) -> Tensor:  # type: ignore[override]
        return delta


def unseen(w: Tensor) -> Tensor:
    """A parameter, in a way that neither a module's call nor an operation shows."""
    return _Unseen.apply(w)


class Implicit(Own):
    """A fixed point, whose gradient is solved for by backward passes of its own, within ours."""

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        def f(z: Tensor) -> Tensor:
            return torch.tanh(0.5 * self.core(z) + h)

        with torch.no_grad():
            z = torch.zeros_like(h)
            for _ in range(8):
                z = f(z)
        z = f(z)
        start = z.detach().requires_grad_()
        once = f(start)

        def solve(delta: Tensor) -> Tensor:
            y = delta
            for _ in range(10):
                y = torch.autograd.grad(once, start, y, retain_graph=True)[0] + delta
            return y

        if z.requires_grad:
            z.register_hook(solve)
        return z


class Differentiating(Own):
    """Takes a gradient of its own in the forward pass."""

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        for _ in range(3):
            with torch.enable_grad():
                s = h.detach().requires_grad_()
                (slope,) = torch.autograd.grad(self.core(s).square().sum(), s)
            h = torch.tanh(self.core(h)) + 0.1 * slope.detach()
        return h


class Hooked(Own):
    """Half of the gradient goes back in time."""

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        for _ in range(3):
            h = self.core(h)
            if h.requires_grad:
                h.register_hook(lambda delta: 0.5 * delta)
            h = torch.tanh(h)
        return h


class Stop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, delta: Tensor) -> None:
        return None


class Stopped(Own):
    """Some of a call's output goes to where no gradient comes from."""

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        for t in range(3):
            y = self.core(h)
            h = torch.tanh(y) if t else Stop.apply(y) + h
        return h


class RandomStart(Own):
    """The first state is drawn anew in every pass."""

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        s = torch.randn_like(h)
        for _ in range(3):
            s = torch.tanh(self.core(s) + h)
        return s


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.gate = nn.Linear(D, D), nn.Linear(D, D), nn.Parameter(torch.ones(D))

    def forward(self, z: Tensor) -> Tensor:
        return torch.complex(torch.tanh(self.a(z.real)), torch.tanh(self.b(z.imag))) * self.gate


class ComplexState(Own):
    def __init__(self) -> None:
        super().__init__(Complex())

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        z = h * (1 + 1j)
        for _ in range(3):
            z = self.core(z)
        return z.real + z.imag


class Encoder(Own):
    """PyTorch's own, with padding: in eval mode and frozen, it would take another path."""

    def __init__(self) -> None:
        layer = nn.TransformerEncoderLayer(D, 2, 2 * D, batch_first=True)
        super().__init__(nn.TransformerEncoder(layer, 1))

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        pad = torch.arange(h.shape[1]) >= 2 + (batch["x"][:, 0, :1] > 0)
        for _ in range(3):
            h = self.core(h, src_key_padding_mask=pad)
        return h.masked_fill(pad[..., None], 0)


class SparseTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, D, sparse=True)

    def forward(self, s: Tensor) -> Tensor:
        return torch.tanh(s + self.table((s.sum(dim=-1).abs() * 3).long() % 8))


class Routed(nn.Module):
    """Each example goes to one of two experts: one example alone never calls the other."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(D, D), nn.Linear(D, D)])

    def forward(self, s: Tensor) -> Tensor:
        first = s.detach().sum(dim=(1, 2)) > 0
        for expert, rows in zip(self.experts, (first, ~first), strict=True):
            if rows.any():
                s = s.masked_scatter(rows[:, None, None], torch.tanh(expert(s[rows])))
        return s


ODD: dict[str, Callable[[], nn.Module]] = {
    "implicit": Implicit,
    "differentiating": Differentiating,
    "hooked": Hooked,
    "stopped": Stopped,
    "random start": RandomStart,
    "complex": ComplexState,
    "encoder": Encoder,
    "sparse table": lambda: Own(SparseTable()),
    "routed": lambda: Own(Routed()),
}
