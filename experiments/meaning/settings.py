"""Settings of the meaning experiment: three tasks, each in a size that can be retrained often, and a smoke size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..base import ExperimentSettings, find_configuration


@dataclass(frozen=True)
class Settings(ExperimentSettings):
    """All that a run depends on: model, training, counterfactual runs. The defaults are the configuration "small"."""

    config: str = "small"
    task: Literal["parity", "sudoku", "language"] = "parity"
    d: int = 32
    heads: int = 4
    longest: int = 6  # bits, of parity
    size: int = 4  # digits, of Sudoku
    length: int = 96  # characters, of the language model
    loops: int = 4  # loop steps of Sudoku and the language model; parity takes as many as a string has bits
    examples: int = 80  # of training
    batch: int = 32
    updates: int = 900
    rate: float = 3e-3
    warmup: int = 50  # updates
    decay: int = 150  # last updates, in which the rate falls to a tenth
    eps_root: float = 0.0  # added under Adam's root
    queries: int = 16  # examples whose mean loss is a query: of each parity, half or source
    window: int = 60  # last updates, in which examples are left out
    groups: int = 24
    share: float = 0.05
    checkpoints: int = 8  # of TracIn
    qld: float | None = None  # the share of top examples that is left out, too


SMOKE = Settings(
    config="smoke", d=8, heads=2, longest=4, length=64, loops=2, examples=20, batch=8, updates=24, warmup=4, decay=8,
    queries=4, window=8, groups=10, share=0.1, checkpoints=2, qld=0.05,
)  # fmt: skip

CONFIGS: dict[str, Settings] = {
    "small": Settings(),
    "large": Settings(
        config="large", longest=8, examples=336, updates=1200, queries=32, window=150, groups=60, qld=0.01
    ),
    "sudoku": Settings(config="sudoku", task="sudoku", examples=200, updates=600, qld=0.01),
    "language": Settings(config="language", task="language", examples=200, batch=16, updates=600, qld=0.01),
    "smoke": SMOKE,
    "smoke-sudoku": replace(SMOKE, config="smoke-sudoku", task="sudoku"),
    "smoke-language": replace(SMOKE, config="smoke-language", task="language"),
}  # fmt: skip


def configuration(name: str) -> Settings:
    """Settings by name."""
    return find_configuration(CONFIGS, name)
