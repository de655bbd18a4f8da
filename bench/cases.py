"""The work that is measured: a looped transformer, a random batch and a sketch, all from fixed seeds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from sdi.backends import room
from sdi.looped_config import LoopedConfig
from sdi.sketch_map import SketchMap

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """One piece of work. It travels to worker processes as JSON."""

    name: str
    config: LoopedConfig
    examples: int
    tokens: int
    m: int

    def model(self) -> Any:
        return room("fast").LoopedTransformer.init(self.config, seed=0)

    def batch(self, seed: int = 1) -> Batch:
        random = torch.Generator().manual_seed(seed)
        shape = (self.examples, self.tokens)
        return {
            "tokens": torch.randint(0, self.config.vocab, shape, generator=random),
            "targets": torch.randint(0, self.config.classes, shape, generator=random),
        }

    def sketch(self, seed: int = 0) -> SketchMap:
        shapes = self.config.shapes()
        return SketchMap.draw({name: shapes[name] for name in self.config.loop().select(shapes)}, self.m, seed)

    @property
    def says(self) -> str:
        c = self.config
        millions = c.parameter_count / 1e6
        return f"{millions:.1f}M parameters, d={c.d}, tau={c.tau}, B={self.examples}, L={self.tokens}, m={self.m}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, case: dict[str, Any]) -> Case:
        return cls(**{**case, "config": LoopedConfig(**case["config"])})


def gpt(tau: int = 8, quick: bool = False) -> Case:
    """The looped GPT of the paper's scalability experiment, 135.1M parameters; quick: the same shape, tiny."""
    if quick:
        small = {"vocab": 97, "classes": 97, "d": 32, "heads": 2, "prelude": 1, "core": 1, "coda": 1, "length": 16}
        return Case("gpt", LoopedConfig.looped_gpt(tau=tau, **small), 2, 16, 256)
    return Case("gpt", LoopedConfig.looped_gpt(tau=tau), 4, 128, 2048)


def sudoku(quick: bool = False) -> Case:
    """One block of the Sudoku model's size, biases and LayerNorms included; quick: tiny."""
    if quick:
        return Case("sudoku", LoopedConfig.sudoku(d=32, heads=2, tau=3, length=16), 4, 16, 256)
    return Case("sudoku", LoopedConfig.sudoku(), 32, 81, 2048)


def tiny_part(batch: Batch) -> Batch:
    """One example, four tokens: enough to load every library before memory is measured."""
    return {name: x[:1, :4] for name, x in batch.items()}
