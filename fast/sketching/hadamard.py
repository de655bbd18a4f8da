"""The subsampled Hadamard transform on a device: both sides of each token are transformed, the pairs multiplied."""

from __future__ import annotations

from functools import cache
from math import log2, sqrt

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from sdi.sketch.protocol import matrix_shape
from sdi.sketch.shipped.hadamard import HadamardSketch, hadamard, padded

from .mask import GATHER_NS
from .tensor_sketch import MADD_NS

RADIX = 32
WALSH_NS = 0.4  # per number and bit of the transform


class TorchHadamard:
    def __init__(self, sketch: HadamardSketch, device: torch.device, dtype: torch.dtype) -> None:
        self.sides = matrix_shape(sketch.shape)
        p1, p2 = (padded(d) for d in self.sides)
        self.token_numbers = 2 * (sketch.size + p1 + p2)
        self.scale = 1 / sqrt(sketch.size)
        self.out_signs, self.in_signs = (
            torch.tensor(t, device=device).to(dtype) for t in (sketch.out_signs, sketch.in_signs)
        )
        self.out_at, self.in_at = (torch.tensor(t, device=device) for t in (sketch.out_at, sketch.in_at))
        self.at = self.out_at * p2 + self.in_at
        self.token_ns = WALSH_NS * (p1 * log2(p1) + p2 * log2(p2)) + GATHER_NS * sketch.size
        self.whole_ns = WALSH_NS * p1 * p2 * log2(p1 * p2)

    def forms(self, tokens: int) -> bool:
        """Whether the transform of the whole gradient costs less than those of all its tokens."""
        d_out, d_in = self.sides
        return MADD_NS * tokens * d_out * d_in + self.whole_ns < tokens * self.token_ns

    def apply(self, G: Float[Tensor, "n ..."]) -> Float[Tensor, "n m"]:
        X = G.reshape(len(G), *self.sides) * self.out_signs[:, None] * self.in_signs
        Y = walsh_hadamard(walsh_hadamard(X).transpose(1, 2)).transpose(1, 2)
        return Y.flatten(1)[:, self.at] * self.scale

    def apply_outer(self, u: Float[Tensor, "n T d_out"], v: Float[Tensor, "n T d_in"]) -> Float[Tensor, "n m"]:
        a, b = walsh_hadamard(u * self.out_signs), walsh_hadamard(v * self.in_signs)
        return (a[..., self.out_at] * b[..., self.in_at]).sum(dim=1) * self.scale

    def apply_rows(self, index: Int[Tensor, "n T"], v: Float[Tensor, "n T d_in"]) -> Float[Tensor, "n m"]:
        """The transform of one_hot(i) is column i of H: signs by the parity of the bits that row and i share."""
        common = index[..., None] & self.out_at  # (n, T, m)
        for shift in (16, 8, 4, 2, 1):  # rows are below 2^32
            common = common ^ (common >> shift)
        a = (1 - 2 * (common & 1)).to(v.dtype) * self.out_signs[index][..., None]
        b = walsh_hadamard(v * self.in_signs)
        return (a * b[..., self.in_at]).sum(dim=1) * self.scale


def walsh_hadamard(x: Float[Tensor, "... d"]) -> Float[Tensor, "... p"]:
    """H x, with x padded to a power of two.

    H is a Kronecker product of smaller ones: a product with each, on its own axis, costs less than log2 p passes over
    memory.
    """
    p, lead = padded(x.shape[-1]), x.shape[:-1]
    y, done = F.pad(x, (0, p - x.shape[-1])), 1
    while done < p:
        f = min(RADIX, p // done)
        H = _matrix(f, x.device, x.dtype)
        y = y.reshape(-1, f) @ H if done == 1 else H @ y.reshape(-1, f, done)
        done *= f
    return y.reshape(*lead, p)


@cache
def _matrix(f: int, device: torch.device, dtype: torch.dtype) -> Float[Tensor, "f f"]:
    return torch.from_numpy(hadamard(np.arange(f), np.arange(f))).to(device=device, dtype=dtype)
