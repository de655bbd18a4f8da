"""What a sketch stores per example and step, counted rather than estimated.

A sketched feature has m numbers for every tensor of more than m entries and all entries of the others, against |w_body|
numbers for the dense one. For the looped GPT of the scalability experiment at m = 2048: 25 tensors, 51,200 numbers
against 29,491,200, which is 576 times fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from sdi.inputs.looped_config import LoopedConfig
from sdi.sketch.sketch_map import SketchMap

from ..machinery.statement import Verdict, statement

Shapes = dict[str, tuple[int, ...]]


def body_shapes(config: LoopedConfig) -> Shapes:
    """The parameters of the loop."""
    parts = tuple(f"{part}." for part in config.loop().body)
    return {name: shape for name, shape in config.shapes().items() if name.startswith(parts)}


def stored(shapes: Shapes, m: int) -> int:
    """Numbers per example and step: at most m for every tensor."""
    return sum(min(m, prod(shape)) for shape in shapes.values())


def _one_sketch_for_all(shapes: Shapes, m: int) -> int:
    return m


def _every_tensor_m(shapes: Shapes, m: int) -> int:
    return m * len(shapes)


def _storage_cases(claim: Callable[[Shapes, int], int], thorough: bool) -> Iterator[tuple[Any, str]]:
    small = LoopedConfig.looped_gpt(d=24, heads=2, vocab=11, classes=11)
    for config, m in [(small, 8), (small, 64), (LoopedConfig.parity(d=16, heads=4), 32), (LoopedConfig.sudoku(), 64)]:
        shapes = body_shapes(config)
        features = SketchMap.draw(shapes, m=m).apply({name: np.ones((2, 3, *shape)) for name, shape in shapes.items()})
        said = claim(shapes, m)
        yield features.shape == (2, 3, said), f"d={config.d}, m={m}: features have {features.shape[-1]}, claimed {said}"
    shapes = body_shapes(LoopedConfig.looped_gpt())
    body, said = sum(map(prod, shapes.values())), claim(shapes, 2048)
    yield SketchMap.draw(shapes, m=2048).size == said, f"looped GPT: claimed {said}"
    found = len(shapes), body, said, body / said
    yield found == (25, 29_491_200, 51_200, 576.0), f"looped GPT: tensors, body, stored, ratio are {found}"


@statement(
    "storage",
    paper="Main text, paragraph on systems",
    method="exact",
    claim=stored,
    mutants={"m for all tensors together": _one_sketch_for_all, "m even for tensors below m": _every_tensor_m},
)
def storage_is_m_per_tensor(claim: Callable[[Shapes, int], int], thorough: bool) -> Verdict:
    """Sketched features hold min(m, entries) numbers per tensor, example and step; looped GPT: 576 times fewer."""
    return Verdict.all(
        _storage_cases(claim, thorough), "looped GPT at m=2048: 51,200 of 29,491,200 numbers, 576x fewer"
    )
