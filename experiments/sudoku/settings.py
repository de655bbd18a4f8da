"""Settings: all that a Sudoku run depends on, in four sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sdi.inputs.looped_config import LoopedConfig

from ..base import ExperimentSettings, find_configuration
from .boards.grid import grid_of


@dataclass(frozen=True)
class Settings(ExperimentSettings):
    """All settings of a Sudoku run: boards, model, training, analysis. The defaults are the configuration "small"."""

    ANALYSIS: ClassVar = ("config", "m", "sample", "queries", "permuted", "check", "keep")

    config: str = "small"
    seed: int = 0
    size: int = 4  # digits, and cells in a row: 4, 6 or 9
    boards: int = 5000  # to generate
    satnet: bool = False  # SATNet's boards instead
    train_share: float = 0.8  # the easiest are trained on, the hardest are the test
    labels: str = "true"  # or "permuted": every board has the solution of another one as difficult, for a control
    relabel: bool = False  # every board has its digits renamed at random each time it is met in training
    d: int = 64
    heads: int = 4
    scale: float = 0.05  # of the initial matrices of the block
    embed: float = 0.1  # of the initial digits and positions
    loops: int = 8  # mean number of loop steps in training, and the horizon of every analysis
    first_loops: int = 2  # the mean at the beginning; it grows to `loops` until the rate falls
    spread: float = 0.5  # sigma of the log-rate of the loop steps in training
    every: bool = True  # the loss is taken after every loop step, not after the last alone
    batch: int = 32
    updates: int = 2500
    rate: float = 2e-3
    warmup: int = 100  # updates
    settle: float = 0.2  # share of the updates at the end, over which the rate falls to the floor
    floor: float = 0.02  # of the rate, at the end
    decay: float = 0.1  # of the weights, matrices only
    average: float = 0.99  # weights are averaged with this memory
    check: int = 125  # updates between tests
    keep: int = 100  # updates between states that a killed run goes on from
    checkpoints: int = 8
    m: int = 2048
    sample: int = 512  # training boards whose influence is computed
    queries: int = 512  # test boards
    permuted: bool = True  # train a control on permuted labels, too, as long

    @property
    def most_loops(self) -> int:
        """The most loop steps in training, and in Panel A."""
        return 2 * self.loops

    def model_config(self) -> LoopedConfig:
        grid = grid_of(self.size)
        return LoopedConfig.sudoku(
            vocab=grid.size + 1, classes=grid.size, d=self.d, heads=self.heads, tau=self.loops, length=grid.cells,
            fused_qkv=True,
        )  # fmt: skip


CONFIGS: dict[str, Settings] = {
    "paper": Settings(
        config="paper", size=9, boards=10000, d=128, loops=32, first_loops=32, batch=16, updates=100000, rate=6e-4,
        warmup=1000, check=1000,
    ),
    "full": Settings(
        config="full", size=9, boards=10000, relabel=True, d=128, loops=8, batch=16, updates=30000, rate=1.5e-3,
        warmup=200, average=0.995, check=250,
    ),
    "small": Settings(),
    "smoke": Settings(
        config="smoke", size=4, boards=400, d=16, heads=2, loops=4, batch=16, updates=30, warmup=5, average=0.9,
        check=15, keep=10, checkpoints=2, m=64, sample=24, queries=24,
    ),
}  # fmt: skip


def configuration(name: str) -> Settings:
    """Settings by name."""
    return find_configuration(CONFIGS, name)
