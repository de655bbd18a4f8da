"""The work that is measured: a looped transformer, a random batch and a sketch, all from fixed seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig
from sdi.sketch.sketch_map import SketchMap

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """One piece of work. It travels to worker processes as JSON."""

    name: str
    config: LoopedConfig
    examples: int
    tokens: int
    m: int
    seed: int = 0  # weights, data and sketch follow from it
    identity_injection: bool = (
        True  # [I | I] plus noise; or normal like every other matrix, as in the paper's fidelity run
    )

    def model(self) -> Any:
        model = room("fast").LoopedTransformer.init(self.config, seed=self.seed)
        if self.config.injection == "concat" and not self.identity_injection:
            with torch.no_grad():
                model.inject.weight.sub_(torch.eye(self.config.d).repeat(1, 2))
        return model

    def batch(self, which: int = 1) -> Batch:
        """Random tokens and targets: the batch number `which`."""
        random = torch.Generator().manual_seed(1000 * self.seed + which)
        shape = (self.examples, self.tokens)
        return {
            "tokens": torch.randint(0, self.config.vocab, shape, generator=random),
            "targets": torch.randint(0, self.config.classes, shape, generator=random),
        }

    def sketch(self, which: int = 0, m: int | Mapping[str, int] | None = None) -> SketchMap:
        """The sketch number `which`. m: one width for all parameters, or one for each; by default the case's."""
        shapes = self.config.shapes()
        body = {name: shapes[name] for name in self.config.loop().select(shapes)}
        return SketchMap.draw(body, self.m if m is None else m, 1000 * self.seed + which)

    @property
    def says(self) -> str:
        c = self.config
        count = f"{c.parameter_count / 1e6:.1f}M" if c.parameter_count >= 1e6 else f"{c.parameter_count / 1e3:.0f}k"
        return f"{count} parameters, d={c.d}, tau={c.tau}, B={self.examples}, L={self.tokens}, m={self.m}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, case: dict[str, Any]) -> Case:
        return cls(**{**case, "config": LoopedConfig(**case["config"])})


class Batches:
    """n examples in batches of the case's size, made when they are read."""

    def __init__(self, case: Case, n: int, name: str) -> None:
        self.case, self.n, self.name = case, n, name

    def __iter__(self) -> Iterator[Batch | dict[str, Any]]:
        size = self.case.examples
        for start in range(0, self.n, size):
            ids = [f"{self.name}-{k}" for k in range(start, min(start + size, self.n))]
            batch = self.case.batch(start + (10**6 if self.name == "q" else 0))
            yield {"id": ids, **{key: x[: len(ids)] for key, x in batch.items()}}


def gpt(tau: int = 8, quick: bool = False, seed: int = 0) -> Case:
    """The looped GPT of the paper's scalability experiment, 135.1M parameters; quick: the same shape, tiny."""
    if quick:
        small = {"vocab": 97, "classes": 97, "d": 32, "heads": 2, "prelude": 1, "core": 1, "coda": 1, "length": 16}
        return Case("gpt", LoopedConfig.looped_gpt(tau=tau, **small), 2, 16, 256, seed)
    return Case("gpt", LoopedConfig.looped_gpt(tau=tau), 4, 128, 2048, seed)


def sudoku(quick: bool = False, seed: int = 0) -> Case:
    """One block of the Sudoku model's size, biases and LayerNorms included; quick: tiny."""
    if quick:
        return Case("sudoku", LoopedConfig.sudoku(d=32, heads=2, tau=3, length=16), 4, 16, 256, seed)
    return Case("sudoku", LoopedConfig.sudoku(), 32, 81, 2048, seed)


def tiny_part(batch: Batch) -> Batch:
    """One example, four tokens: enough to load every library before memory is measured."""
    return {name: x[:1, :4] for name, x in batch.items()}
