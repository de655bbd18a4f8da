"""The random mask on a device: only the chosen entries are ever made."""

from __future__ import annotations

from math import prod, sqrt

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sdi.sketch.protocol import matrix_shape
from sdi.sketch.shipped.mask import MaskSketch

from .tensor_sketch import MADD_NS

GATHER_NS = 5.0  # per chosen entry and token: two gathers, a product, a sum


class TorchMask:
    def __init__(self, sketch: MaskSketch, device: torch.device, dtype: torch.dtype) -> None:
        self.index = torch.tensor(sketch.index, device=device)
        d_in = matrix_shape(sketch.shape)[1]
        self.row, self.col = self.index // d_in, self.index % d_in
        self.scale, self.token_numbers = sqrt(sketch.squared_scale), 3 * sketch.size
        self.cheap = GATHER_NS * sketch.size < MADD_NS * prod(sketch.shape)

    def forms(self, tokens: int) -> bool:
        """Whether one product gives all entries for less than the chosen ones alone."""
        return not self.cheap

    def apply(self, G: Float[Tensor, "n ..."]) -> Float[Tensor, "n m"]:
        return G.flatten(1)[:, self.index] * self.scale

    def apply_outer(self, u: Float[Tensor, "n T d_out"], v: Float[Tensor, "n T d_in"]) -> Float[Tensor, "n m"]:
        return (u[..., self.row] * v[..., self.col]).sum(dim=1) * self.scale

    def apply_rows(self, index: Int[Tensor, "n T"], v: Float[Tensor, "n T d_in"]) -> Float[Tensor, "n m"]:
        return (v[..., self.col] * (index[..., None] == self.row)).sum(dim=1) * self.scale
