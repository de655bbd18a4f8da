"""Sparse JL on a device: s signed scatters of the formed gradient."""

from __future__ import annotations

from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from sdi.sketch.shipped.sparse import SparseSketch


class TorchSparse:
    def __init__(self, sketch: SparseSketch, device: torch.device, dtype: torch.dtype) -> None:
        self.m = sketch.m
        self.rows = torch.tensor(sketch.rows.T, device=device).to(torch.int64).contiguous()  # (s, numbers)
        self.signs = torch.tensor(sketch.signs.T, device=device).to(dtype).div_(sqrt(len(self.rows))).contiguous()

    def apply(self, G: Float[Tensor, "n ..."]) -> Float[Tensor, "n m"]:
        G = G.flatten(1)
        y = G.new_zeros(len(G), self.m)
        for rows, signs in zip(self.rows, self.signs, strict=True):
            y.index_add_(1, rows, G * signs)
        return y
