"""Preconditioned: vectors times the damped inverse of the Fisher matrix of training, for each parameter tensor apart.

F = mean of g_i g_i^T; lambda = damping x its mean diagonal. Solved in the space of examples, where it is exact: n x n
instead of D x D. With sketched gradients, all of it is in sketch space, and the error is known to first order: where
P = (F + lambda)^-1, and e(x, y) is the error of a sketched <x, y>, that of <g, P v> is lambda e(P g, P v).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sdi.sketch.bounds import worst_case
from sdi.sketch.sketch_map import SketchMap

from ..guard.restore_model import unharmed
from ..sketching.sinks import Accumulator, Tables, make_sinks
from ..sketching.workspace import Workspace
from .example_gradients import each_once
from .kronecker import kronecker_factors
from .placed import Placed, Vector
from .replay import Replay

WORK_BYTES = 1 << 26


class Fisher(NamedTuple):
    """The damped Fisher matrix of one parameter tensor of d numbers, by gradients, or sketches, of n examples."""

    G: Float[Tensor, "n width"]
    gram: Float[Tensor, "n n"]  # G G^T + n lambda
    level: float  # lambda

    @classmethod
    def of(cls, G: Float[Tensor, "n width"], d: int, damping: float) -> Fisher:
        n = len(G)
        level = damping * float(G.square().sum()) / (n * d)
        gram = G @ G.T + n * level * torch.eye(n, dtype=G.dtype, device=G.device)
        return cls(G, gram, level)

    def inverse_times(self, v: Float[Tensor, "A width"]) -> Float[Tensor, "A width"]:
        """(F + lambda)^-1 v. No example reaches a tensor of level 0: nothing to divide by, and nothing to score."""
        if self.level == 0:
            return torch.zeros_like(v)
        return (v - torch.linalg.solve(self.gram, self.G @ v.T).T @ self.G) / self.level


def times_inverse_fisher(
    replay: Replay, vectors: Float[Tensor, "A D"], damping: float, weights: Vector, kronecker: bool
) -> Float[Tensor, "A D"]:
    """Vectors times the damped inverse of the Fisher matrix at `weights`; kronecker: factored for linear maps."""
    placed, n = replay.placed, len(replay.run.ids)
    factors = kronecker_factors(replay, weights) if kronecker else {}
    rest = [i for i, name in enumerate(placed.shapes) if name not in factors]
    grads: dict[int, Tensor] = {}
    if rest:
        with unharmed(placed.model):
            every = [_of_tensors(g, placed.sizes, rest) for _, g in each_once(replay, weights)]
        grads = dict(zip(rest, torch.split(torch.cat(every), [placed.sizes[i] for i in rest], dim=1), strict=True))
    out = []
    for i, (name, v) in enumerate(zip(placed.shapes, torch.split(vectors, placed.sizes, dim=1), strict=True)):
        if name in factors:
            out.append(factors[name].inverse(n, damping)(v))
        else:
            out.append(Fisher.of(grads[i], placed.sizes[i], damping).inverse_times(v))
    return torch.cat(out, dim=1)


def _of_tensors(g: Float[Tensor, "n D"], sizes: list[int], rest: list[int]) -> Tensor:
    parts = torch.split(g, sizes, dim=1)
    return torch.cat([parts[i] for i in rest], dim=1)


class Sketched:
    """Vectors of all parameters as sketches of at most m numbers for each tensor, side by side. placed: the model."""

    def __init__(self, placed: Placed, m: int, seed: int) -> None:
        self.dims = placed.sizes
        self.map = SketchMap.draw({name: (d,) for name, d in zip(placed.shapes, self.dims, strict=True)}, m, seed)
        self.widths = [block.stop - block.start for block in self.map.blocks]
        self.factors = [worst_case(sketch) for sketch in self.map.sketches.values()]
        self.tables: Tables = {}

    def __call__(self, rows: Float[Tensor, "n D"]) -> Float[Tensor, "n M"]:
        acc = Accumulator(self.map, False, rows.dtype, rows.device)
        sinks = make_sinks(acc, Workspace(rows.device, WORK_BYTES), self.tables)
        acc.open(len(rows), 1)
        for sink, part in zip(sinks.values(), torch.split(rows, self.dims, dim=1), strict=True):
            sink.whole(None, part)
        assert acc.values is not None
        return acc.values

    def scores(
        self, G: Float[Tensor, "n M"], g: Float[Tensor, "n M"], phi: Float[Tensor, "q slots M"], damping: float
    ) -> tuple[Float[Tensor, "n q slots"], Float[Tensor, "n q slots"], Float[Tensor, "n q"]]:
        """(scores, variances of them, variances of their sums over slots); G makes up the Fisher matrix."""
        n, (q, slots, _) = len(g), phi.shape
        scores, variance = phi.new_zeros(n, q, slots), phi.new_zeros(n, q, slots)
        whole = phi.new_zeros(n, q)
        parts = (torch.split(x, self.widths, dim=-1) for x in (G, g, phi))
        for d, factor, G_part, g_part, phi_part in zip(self.dims, self.factors, *parts, strict=True):
            fisher = Fisher.of(G_part, d, damping)
            P_phi = fisher.inverse_times(phi_part.flatten(0, 1)).view(phi_part.shape)
            P_g = fisher.inverse_times(g_part)
            scores += torch.einsum("nd,qtd->nqt", g_part, P_phi)
            wide = factor * fisher.level**2 * P_g.square().sum(dim=1)
            variance += wide[:, None, None] * P_phi.square().sum(dim=2)
            whole += wide[:, None] * P_phi.sum(dim=1).square().sum(dim=1)
        return scores, variance, whole
