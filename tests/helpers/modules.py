"""Modules that bodies of looped models are made of in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from looped_models import D
from torch import Tensor, nn
from torch.nn.utils import parametrize


class CustomRMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(D))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Gated(nn.Module):
    """Bare parameters, a scalar among them, around a module; one of them as big as a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.lin, self.gate = nn.Linear(D, D), nn.Parameter(torch.ones(D))
        self.scalar, self.mix = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.ones(D, D))

    def forward(self, s: Tensor) -> Tensor:
        return self.scalar * s + self.gate * torch.tanh(self.lin(s) @ self.mix)


class Attended(nn.Module):
    def __init__(self, batch_first: bool, mask: bool = False) -> None:
        super().__init__()
        self.attn, self.mask = nn.MultiheadAttention(D, 2, batch_first=batch_first), mask
        self.norm = nn.LayerNorm(D)

    def forward(self, s: Tensor) -> Tensor:
        x = self.norm(s) if self.attn.batch_first else self.norm(s).transpose(0, 1)
        masks: dict[str, Tensor] = {}
        if self.mask:  # (n, L) and (L, L): with n = L, nothing but the numbers tells which one counts examples
            masks["key_padding_mask"] = (s[..., 0] > 0) & (torch.arange(s.shape[1]) > 0)
            masks["attn_mask"] = torch.arange(s.shape[1]) > torch.arange(s.shape[1])[:, None]
        y = self.attn(x, x, x, **masks)[0]
        return s + (y if self.attn.batch_first else y.transpose(0, 1))


class Embedded(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.table = nn.Embedding(4, D, **options)

    def forward(self, s: Tensor) -> Tensor:
        return torch.tanh(s) + self.table((s[..., 0] * 5).long() % 4)


class Through(nn.Module):
    """s + tanh(after(inner(before(s))))"""

    def __init__(self, inner: nn.Module, before: Callable[..., Any], after: Callable[..., Tensor]) -> None:
        super().__init__()
        self.inner, self.before, self.after = inner, before, after

    def forward(self, s: Tensor) -> Tensor:
        return s + torch.tanh(self.after(self.inner(self.before(s))))


def through(
    inner: nn.Module, before: Callable[..., Any] = lambda s: s, after: Callable[..., Any] = lambda s: s
) -> Through:
    return Through(inner, before, after)


class Conv1D(nn.Module):
    """As in Hugging Face's GPT-2."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf = nf
        self.weight, self.bias = nn.Parameter(torch.empty(nx, nf)), nn.Parameter(torch.empty(nf))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.nf)


class LoRA(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(D, D)
        self.A, self.B = nn.Parameter(torch.ones(2, D)), nn.Parameter(torch.ones(D, 2))

    def forward(self, s: Tensor) -> Tensor:
        return torch.tanh(self.base(s) + s @ self.A.T @ self.B.T)


class Shared(nn.Module):
    """One parameter in two modules, one module under two names, and a bare name for a weight that a module uses."""

    def __init__(self, bare: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(D, D), nn.Linear(D, D, bias=False)
        self.b.weight = self.a.weight
        self.c = self.a
        self.bare = self.a.weight if bare else None

    def forward(self, s: Tensor) -> Tensor:
        s = torch.tanh(self.b(self.a(s))) + self.c(s)
        return s if self.bare is None else s @ self.bare


class Cell(nn.Module):
    """Two outputs, one of which is used for the other."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.v = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D))

    def forward(self, s: Tensor) -> dict[str, Any]:
        c = torch.tanh(self.w * s)
        h = self.v * c * s
        return {"h": h, "also": [h, c], "index": torch.arange(3)}


class Rows(nn.Module):
    """A gate beside a table that all examples share and that has as many rows as there are examples."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.ones(D))

    def forward(self, s: Tensor, table: Tensor) -> Tensor:
        return self.gate * s + torch.tanh(self.gate * table.sum(dim=0) + table[0])


class Symmetric(nn.Module):
    def forward(self, w: Tensor) -> Tensor:
        return w.triu() + w.triu(1).transpose(-1, -2)


def symmetric() -> nn.Module:
    linear = nn.Linear(D, D)
    parametrize.register_parametrization(linear, "weight", Symmetric())
    return linear


def hooked() -> nn.Module:
    """The user's own hooks change what goes in and what comes out."""
    core = nn.Sequential(nn.Linear(D, D), CustomRMSNorm())
    for module in core:
        module.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
        module.register_forward_hook(lambda m, args, y: 3 * y + args[0])
    return core


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(D, D)

    def forward(self, s: Tensor) -> Tensor:
        return self.lin(torch.tanh(self.lin(input=s)))


class InPlace(nn.Module):
    """What follows changes outputs in place, the first one included."""

    def __init__(self) -> None:
        super().__init__()
        self.lin, self.conv, self.norm = nn.Linear(D, D), Conv1D(D, D), CustomRMSNorm()

    def forward(self, s: Tensor) -> Tensor:
        return self.norm(self.conv(self.lin(torch.tanh(s)).mul_(2)).mul_(3)).add_(1).tanh_()


class Unpacked(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(**x) if isinstance(x, dict) else self.inner(*x)


class StepEmbedded(nn.Module):
    """Parts called on something without a batch axis: the module around them is replayed."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp, self.bias = nn.Linear(D, D), nn.Embedding(7, D)

    def forward(self, s: Tensor) -> Tensor:
        return torch.tanh(s + self.mlp(torch.ones(1, D, dtype=s.dtype)) + self.bias(torch.arange(7)).sum(dim=0))


class Overwriting(nn.Module):
    """Changes its input in place."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.ones(D))

    def forward(self, s: Tensor) -> Tensor:
        s += self.gate
        return s * 2
