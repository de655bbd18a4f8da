"""Dense projections on a device: one product of the formed gradient with the matrix."""

from __future__ import annotations

from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from sdi.sketch.shipped.gaussian import GaussianSketch
from sdi.sketch.shipped.rademacher import RademacherSketch


class TorchDense:
    def __init__(self, sketch: GaussianSketch | RademacherSketch, device: torch.device, dtype: torch.dtype) -> None:
        table = sketch.table if isinstance(sketch, GaussianSketch) else sketch.signs
        self.matrix = torch.tensor(table, device=device).to(dtype).T.contiguous().div_(sqrt(sketch.size))

    def apply(self, G: Float[Tensor, "n ..."]) -> Float[Tensor, "n m"]:
        return G.flatten(1) @ self.matrix
