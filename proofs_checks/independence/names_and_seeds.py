"""Every parameter has a sketch of its own, and every seed draws another: no two tables are alike, or correlated.

A sketch is drawn from (seed, name, side). Through SketchMap.draw, all tables of 256 buckets and signs of

    names    640 as models have them: they differ early ("core.3" and "coda.3"), late ("q" and "k"), by a digit, or are
             the weight and the bias of one layer; vectors and both sides of matrices; and some that only differ in
             their case, their dots, or after 100 letters
    seeds    0, 1, 2, 255, 2^8, 2^15 to 2^65 and one more, -1: whatever a number may be cut to; and (1, "1.w") with
             (11, ".w")

must differ, in both families; and those of the table family be uncorrelated: for every two, the sum of the products of
their signs, and of their centred buckets, is within the normal quantile for alpha = 1e-6 divided by all pairs. Two
polynomials over a field of 256 elements may well have proportional buckets, so they must only differ.

What is shared is seen with certainty: one table in place of two has a correlation of 16 standard errors, and of so many
names two would share any hash of 16 bits, with a probability of 95%. Shares of a table: from 45% on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np

from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch
from sdi.sketch.sketch_map import SketchMap

from ..machinery.statement import Verdict, statement

Array = np.ndarray
Shapes = dict[str, tuple[int, ...]]
Draw = Callable[[Shapes, int, int, str], SketchMap]  # shapes, m, seed, family
D, M, ALPHA = 256, 16, 1e-6
SEEDS = (0, 1, 2, 255, 2**8, *(2**k + e for k in (15, 16, 31, 32, 63, 64, 65) for e in (0, 1)), -1)
PARTS = ("core", "coda", "prelude", "model.layers", "transformer.h")
LONG = "model." * 20
ODD = (
    "w.1.1",
    "w.11",
    "w.1",
    "W.1",
    "w_1",
    "w.1 ",
    "",
    f"{LONG}q",
    f"{LONG}k",
)  # names that an eager hash takes for one
LAYERS = ("attn.q", "attn.k", "attn.v", "attn.o", "mlp.up", "mlp.down", "norm1", "norm2")


def draw(shapes: Shapes, m: int, seed: int, family: str) -> SketchMap:
    return SketchMap.draw(shapes, m, seed=seed, family=family)


def model_shapes(blocks: int) -> Shapes:
    """Parameters of 256 entries a side, named as models name them."""
    names = [f"{part}.{i}.{layer}" for part, i, layer in product(PARTS, range(blocks), LAYERS)]
    matrices: Shapes = {f"{name}.weight": (D,) if "norm" in name else (D, D) for name in names}
    return matrices | {f"{name}.bias": (D,) for name in names} | dict.fromkeys(ODD, (D,))


def tables(sketch: SketchMap, seed: int) -> Iterator[tuple[str, CountSketch]]:
    for name, one in sketch.sketches.items():
        sides: dict[str, Any] = {"": one}
        if isinstance(one, TensorSketch):
            sides = {" rows": one.rows, " columns": one.cols}
        yield from ((f"{name}{side}, seed {seed}", table) for side, table in sides.items())


def _alike(drawn: list[tuple[str, CountSketch]], family: str) -> Iterator[tuple[Any, str]]:
    seen: dict[bytes, str] = {}
    shared = ""
    for label, table in drawn:
        other = seen.setdefault(table.h.tobytes() + table.s.tobytes(), label)
        shared = shared or (f"{other} and {label}" if other != label else "")
    yield not shared, f"{family}: {shared} have one table"
    if family != "table":
        return
    limit = NormalDist().inv_cdf(1 - ALPHA / len(drawn) ** 2 / 2)
    centred = np.stack([table.h for _, table in drawn]) - (M - 1) / 2
    looked_at = {"signs": np.stack([table.s for _, table in drawn]), "buckets": centred / ((M * M - 1) / 12) ** 0.5}
    for what, rows in looked_at.items():
        gram = np.abs(np.triu(rows.astype(np.float32) @ rows.astype(np.float32).T, 1)) / D**0.5
        i, j = np.unravel_index(int(gram.argmax()), gram.shape)
        text = f"{drawn[i][0]} and {drawn[j][0]}: their {what} are {gram[i, j]:.1f} standard errors from uncorrelated"
        yield gram[i, j] <= limit, f"{family}: {text}"


def _cases(draw: Draw, thorough: bool) -> Iterator[tuple[Any, str]]:
    one: Shapes = {"core.0.attn.q.weight": (D, D), "core.0.norm1.bias": (D,)}
    for family, blocks in (("table", 8), ("polynomial", 2)):  # 640 and 160 parameters
        seeds = [t for seed in SEEDS for t in tables(draw(one, M, seed, family), seed)]
        seeds += [
            t for seed, name in ((1, "1.w"), (11, ".w")) for t in tables(draw({name: (D,)}, M, seed, family), seed)
        ]
        yield from _alike(seeds, family)
        shapes = model_shapes(blocks * (4 if thorough else 1))
        yield from _alike(list(tables(draw(shapes, M, 0, family), 0)), family)


def _by(name_of: Callable[[str], str]) -> Draw:
    """A wrong draw: each parameter's sketch is drawn by `name_of` its name, not by the name."""

    def wrong(shapes: Shapes, m: int, seed: int, family: str) -> SketchMap:
        drawn = {name: draw({name_of(name): shape}, m, seed, family).sketches for name, shape in shapes.items()}
        return SketchMap({name: next(iter(s.values())) for name, s in drawn.items()}, shapes)

    return wrong


def _eight_bits(name: str) -> str:
    return str(sum(name.encode()) % 256)


def _seeds_below(limit: int) -> Draw:
    return lambda shapes, m, seed, family: draw(shapes, m, seed % limit, family)


def _half_a_table(shapes: Shapes, m: int, seed: int, family: str) -> SketchMap:
    """A vector has the signs of one and the same table in its first half."""
    drawn = dict(draw(shapes, m, seed, family).sketches)
    first = next(s for s in drawn.values() if isinstance(s, CountSketch))
    for name, s in drawn.items():
        if isinstance(s, CountSketch):
            drawn[name] = CountSketch(s.h, np.concatenate([first.s[: D // 2], s.s[D // 2 :]]), m)
    return SketchMap(drawn, shapes)


@statement(
    "independence.names_and_seeds",
    paper="Main text, the sketch map: independent hashes for every parameter",
    method="statistical",
    claim=draw,
    mutants={
        "only the last part of the name": _by(lambda name: name.rpartition(".")[2]),
        "only the last two parts of the name": _by(lambda name: ".".join(name.split(".")[-2:])),
        "only the first 8 letters of the name": _by(lambda name: name[:8]),
        "a bias with its weight's hash": _by(lambda name: name.replace(".bias", ".weight")),
        "8 bits of the name": _by(_eight_bits),
        "names without their case": _by(str.lower),
        "names without their dots": _by(lambda name: name.replace(".", "")),
        "the first 100 letters of the name": _by(lambda name: name[:100]),
        "seed and name written together": lambda shapes, m, seed, family: SketchMap(
            {
                name: draw({f"{seed}{name}": shape}, m, 0, family).sketches[f"{seed}{name}"]
                for name, shape in shapes.items()
            },
            shapes,
        ),
        "seeds modulo 2^16": _seeds_below(2**16),
        "seeds modulo 2^32": _seeds_below(2**32),
        "seeds modulo 2^64": _seeds_below(2**64),
        "half of a table shared": _half_a_table,
    },
)
def names_and_seeds_draw_apart(draw: Draw, thorough: bool) -> Verdict:
    """No two parameters, sides or seeds share a table or are correlated, whatever their names have in common."""
    return Verdict.all(_cases(draw, thorough), f"alpha {ALPHA:g} over all pairs")
