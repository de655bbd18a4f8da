"""The two-sided projection on a device: tokens are projected on both sides, then multiplied."""

from __future__ import annotations

from math import sqrt

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sdi.sketch.protocol import matrix_shape
from sdi.sketch.shipped.kronecker import KroneckerSketch


class TorchKronecker:
    def __init__(self, sketch: KroneckerSketch, device: torch.device, dtype: torch.dtype) -> None:
        self.sides, self.token_numbers = matrix_shape(sketch.shape), sum(sketch.k)
        self.left, self.right = (
            None if t is None else torch.tensor(t, device=device).to(dtype).T.div_(sqrt(len(t))).contiguous()
            for t in (sketch.left, sketch.right)
        )  # (d, k)

    def apply(self, G: Float[Tensor, "n ..."]) -> Float[Tensor, "n k1*k2"]:
        G = G.reshape(len(G), *self.sides)
        G = G if self.right is None else G @ self.right
        G = G if self.left is None else self.left.T @ G
        return G.flatten(1)

    def apply_outer(self, u: Float[Tensor, "n T d_out"], v: Float[Tensor, "n T d_in"]) -> Float[Tensor, "n k1*k2"]:
        u = u if self.left is None else u @ self.left
        v = v if self.right is None else v @ self.right
        return torch.bmm(u.transpose(1, 2), v).flatten(1)

    def apply_rows(self, index: Int[Tensor, "n T"], v: Float[Tensor, "n T d_in"]) -> Float[Tensor, "n k1*k2"]:
        """A row of the left side for each token, or the sum of rows where that side is kept."""
        v = v if self.right is None else v @ self.right
        if self.left is not None:
            return torch.bmm(self.left[index].transpose(1, 2), v).flatten(1)
        G = v.new_zeros(len(v), self.sides[0], v.shape[2])
        return G.scatter_add_(1, index[..., None].expand(v.shape), v).flatten(1)
