"""Modules that bodies of looped models are made of in tests."""

from __future__ import annotations

from typing import Any

import torch
from fast_cases import (
    D,
)
from torch import Tensor, nn


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
