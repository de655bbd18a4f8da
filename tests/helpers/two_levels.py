"""The mean and the variance of a backend's sketched scores over seeds, against the reference's gradients.

A score of one seed is off by several percent, and a model takes milliseconds to run: averaging until 1% shows would
take hours. So the mean over seeds is estimated on two levels, as in multilevel Monte Carlo:

    E score = E [score from the tables]                        many seeds: tables drawn by the library, the gradients
            + E [score of the backend - score from the tables]   of the reference and a matrix written out here
                                                               few seeds: the same tables handed to the backend

Nothing is assumed of the backend: if it is right the second part is rounding, if not, its mean is the bias.

What is averaged, for each mode and over parameters p and pairs (a, b) of gradients with exact product z, whose sketched
product has the exact variance v (closed form) and at most the variance u (the bound):

    bias        sum of w (Z - z) / sum of w z, with w = z / v: how much too large scores are; 0
    by part     mean of (Z - z)^2 / v over parameters and pairs; 1
    total       mean over pairs of (sum over p of Z - z)^2 / sum over p of v; 1, for independent sketches
    bound       mean over pairs of the same / sum over p of u; at most 1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csc_matrix

from sdi import SketchMap, backend, reference
from sdi.sketch import bounds
from sdi.sketch.shipped.count_and_tensor import TensorSketch
from sdi.testing import LoopedCase

Array = np.ndarray
MANY, FEW = 900, 4  # seeds 0, 1, ... of the two levels
AT_ONCE = 10  # seeds whose tables are multiplied in one go
MODES = ("sdi", "train", "matrix", "tracin")
KINDS = ("bias", "by part", "total", "bound")
WANTED = {"bias": 0.0, "by part": 1.0, "total": 1.0, "bound": 1.0}


class Mean(NamedTuple):
    """An estimate and its standard error."""

    value: float
    error: float


class Sides(NamedTuple):
    """Whether the training side and the query side of a mode are resolved by step."""

    train: bool
    query: bool


SIDES = {"sdi": Sides(False, True), "train": Sides(True, False), "matrix": Sides(True, True)}
SIDES["tracin"] = Sides(False, False)


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """A looped case with a width for each parameter and a family of hashes; every parameter is sketched."""

    case: LoopedCase
    family: str = "table"
    share: float = 0.75  # of a parameter's entries, as its width

    @cached_property
    def m(self) -> dict[str, int]:
        wide = {name: max(2, int(self.share * prod(shape))) for name, shape in self.case.body.items()}
        return {name: 1 << (m.bit_length() - 1) if self.family == "polynomial" else m for name, m in wide.items()}

    def draw(self, seed: int) -> SketchMap:
        return SketchMap.draw(self.case.body, self.m, seed=seed, family=self.family)

    @cached_property
    def phi(self) -> dict[str, Array]:
        """(n, tau, entries) of every parameter whose gradient is not zero by symmetry."""
        phi = reference.step_gradients(self.case.model, reference.token_cross_entropy, self.case.batch)
        largest = max(np.abs(x).max() for x in phi.values())
        return {name: x for name, x in phi.items() if np.abs(x).max() > 1e-9 * largest}

    def __repr__(self) -> str:
        return f"World({self.case!r}, {self.family!r}, {self.share})"

    @cached_property
    def in_torch(self) -> tuple[Any, dict[str, Any]]:
        return self.case.torch()

    def rows(self, name: str, steps: bool) -> Array:
        """phi of all examples and steps, or g of all examples: (rows, *shape)."""
        phi = self.phi[name]
        return phi.reshape(-1, *phi.shape[2:]) if steps else phi.sum(axis=1)

    @cached_property
    def exact(self) -> dict[str, dict[str, tuple[Array, Array, Array]]]:
        """By mode and parameter: z, v and u of every pair; v is 0 where a gradient is."""
        return {mode: {name: self._moments(name, *sides) for name in self.phi} for mode, sides in SIDES.items()}

    def _moments(self, name: str, train: bool, query: bool) -> tuple[Array, Array, Array]:
        X, Y, m = self.rows(name, train)[:, None], self.rows(name, query)[None], self.m[name]
        axes = tuple(range(2, X.ndim))
        z, norms = (X * Y).sum(axes), (X * X).sum(axes) * (Y * Y).sum(axes)
        matrix = len(axes) == 2
        v = (bounds.tensor_sketch_variance if matrix else bounds.count_sketch_variance)(X, Y, m)
        factor = 4 / m**2 + 6 / m if matrix else 2 / m
        return z, np.where((v > 1e-9 * norms / m) & (norms > 1e-16 * norms.max()), v, 0.0), factor * norms

    def statistics(self, mode: str, Z: Mapping[str, Array]) -> Array:
        """The four kinds for every seed, (seeds, 4), from the sketched products of each parameter (seeds, pairs)."""
        moments = self.exact[mode]
        seeds = len(next(iter(Z.values())))
        bias, size, squares, count = np.zeros(seeds), 0.0, np.zeros(seeds), 0
        off, v_total, u_total = np.zeros((seeds, *moments[next(iter(Z))][0].shape)), 0.0, 0.0
        for name, (z, v, u) in moments.items():
            error, live = Z[name] - z, v > 0
            w = np.divide(z, v, out=np.zeros_like(v), where=live)
            bias, size = bias + (error * w).sum((1, 2)), size + (w * z).sum()
            squares = squares + (np.square(error) / np.where(live, v, np.inf)).sum((1, 2))
            count += int(live.sum())
            off, v_total, u_total = off + error * live, v_total + v, u_total + u * live
        live = v_total > 0
        each = np.square(off[:, live])
        columns = (bias / size, squares / count, (each / v_total[live]).mean(1), (each / u_total[live]).mean(1))
        return np.stack(columns, axis=1)

    def by_tables(self, seeds: range) -> tuple[dict[str, Array], int, int]:
        """The statistics by mode (seeds, 4), from h and s alone; how many signs were drawn, and how many are +1."""
        grams: dict[str, list[Array]] = {name: [] for name in self.phi}
        plus = signs = 0
        stacked = {name: np.concatenate([self.rows(name, s) for s in (False, True)]) for name in self.phi}
        columns = {name: np.ascontiguousarray(x.reshape(len(x), -1).T) for name, x in stacked.items()}
        for first in range(seeds.start, seeds.stop, AT_ONCE):
            maps = [self.draw(seed).sketches for seed in range(first, min(first + AT_ONCE, seeds.stop))]
            for sketch in (sketch for sketches in maps for sketch in sketches.values()):
                for s in (sketch.rows.s, sketch.cols.s) if isinstance(sketch, TensorSketch) else (sketch.s,):
                    plus, signs = plus + int(np.count_nonzero(s > 0)), signs + s.size
            for name, X in columns.items():
                Y = (matrix_of([sketches[name] for sketches in maps]) @ X).reshape(len(maps), -1, X.shape[1])
                grams[name].append(Y.transpose(0, 2, 1) @ Y)
        cut = {False: slice(0, self.case.n), True: slice(self.case.n, None)}
        found = {}
        for mode, (train, query) in SIDES.items():
            Z = {name: np.concatenate(gram)[:, cut[train], cut[query]] for name, gram in grams.items()}
            found[mode] = self.statistics(mode, Z)
        return found, signs, plus

    def by_backend(self, name: str, seeds: range) -> dict[str, Array]:
        """The statistics by mode, from a backend's own features and scores."""
        each = [self.scores(name, self.draw(seed)) for seed in seeds]
        found = {}
        for mode in MODES:
            Z = {p: np.stack([scores[mode][p] for scores in each]) for p in self.phi}
            found[mode] = self.statistics(mode, Z)
        return found

    def scores(self, name: str, sketch: SketchMap) -> dict[str, dict[str, Array]]:
        """By mode and parameter, every pair: (rows of the training side, rows of the query side)."""
        room: Any = backend(name)
        model, batch = self.in_torch if name == "fast" else (self.case.model, self.case.batch)
        options: dict[str, Any] = {"audit": "off"} if name == "fast" else {}
        whole, steps = (
            room.featurize(
                model, room.token_cross_entropy, batch, loop=self.case.loop, sketch=sketch, steps=s, **options
            ).values
            for s in (False, True)
        )
        scores: dict[str, dict[str, Array]] = {mode: {} for mode in MODES}
        for block in sketch.blocks:
            if block.name in self.phi:
                g, phi = (side[..., block.start : block.stop] for side in (whole, steps))
                n, tau = phi.shape[:2]
                scores["sdi"][block.name] = room.sdi(g, phi).reshape(n, n * tau)
                scores["train"][block.name] = room.sdi_train(phi, g).swapaxes(1, 2).reshape(n * tau, n)
                matrix = room.step_matrix(phi, phi).transpose(0, 2, 1, 3)
                scores["matrix"][block.name] = matrix.reshape(n * tau, n * tau)
                scores["tracin"][block.name] = room.tracin(g, g)
        return scores


def matrix_of(sketches: Sequence[Any]) -> csc_matrix:
    """Sketches of one parameter as one matrix on it, flattened: one below the other, from h and s alone."""

    def tables(of: Sequence[Any]) -> tuple[Array, Array]:
        return np.stack([sketch.h for sketch in of], axis=-1), np.stack([sketch.s for sketch in of], axis=-1)

    m, many = sketches[0].size, len(sketches)
    if isinstance(sketches[0], TensorSketch):
        (h, s), (h_cols, s_cols) = (tables([getattr(x, part) for x in sketches]) for part in ("rows", "cols"))
        bucket, sign = (h[:, None] + h_cols).reshape(-1, many) % m, (s[:, None] * s_cols).reshape(-1, many)
    else:
        bucket, sign = tables(sketches)
    place = bucket + m * np.arange(many)
    starts = many * np.arange(len(place) + 1)
    return csc_matrix((sign.ravel().astype(np.float64), place.ravel(), starts), (many * m, len(place)))


def estimates(world: World, name: str, many: dict[str, Array]) -> Iterator[tuple[str, str, Mean]]:
    """Every mode and kind, over all seeds, on two levels; `many` are the statistics from the tables."""
    scored = world.by_backend(name, range(FEW))
    for mode in MODES:
        gap = scored[mode] - many[mode][:FEW]
        value = many[mode].mean(0) + gap.mean(0)
        error = np.sqrt(many[mode].var(0, ddof=1) / len(many[mode]) + gap.var(0, ddof=1) / FEW)
        for k, kind in enumerate(KINDS):
            yield mode, kind, Mean(float(value[k]), float(error[k]))
