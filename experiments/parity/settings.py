"""Settings: all that a parity run depends on, in four sizes.

The training strings of a length are fixed: all of them when short, `pool` random ones when long. So an example whose
influence is asked for is one that was trained on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sdi.inputs.looped_config import LoopedConfig

from ..base import ExperimentSettings, find_configuration

SHORTEST = 2
EXTRA = 2  # loop steps after the read-out in every analysis, which must get exactly no influence


@dataclass(frozen=True)
class Settings(ExperimentSettings):
    """All settings of a parity run: model, training, analysis. The defaults are the configuration "small"."""

    ANALYSIS: ClassVar = ("config", "m", "per_tercile", "at_longest", "tests", "calibration", "evaluation")

    config: str = "small"
    seed: int = 0
    labels: str = "parity"  # or "shuffled": a coin for every string, for a control
    d: int = 64
    heads: int = 8
    longest: int = 20  # bits in training
    test: int = 40  # bits, of the test set and of the probes
    pool: int = 4096  # training strings of one length, at most
    scale: float = 0.1  # of the initial matrices
    rate: float = 1e-3
    warmup: int = 100  # steps
    decay: float = 0.01  # of the weights
    batch: int = 64
    groups: int = 4  # lengths in a batch; examples of one length need no padding
    noise: float = 0.1  # added to the state before every loop step in training
    bar: float = 0.1  # a running loss below this adds a bit
    patience: int = 600  # steps at one length, whatever was learned
    settle: int = 600  # steps at all lengths with a falling rate
    floor: float = 0.02  # of the rate, at the end
    average: float = 0.995  # weights are averaged with this memory
    check: int = 100  # steps between tests
    keep: int = 50  # steps between states that a killed run goes on from
    checkpoints: int = 8
    m: int = 2048
    per_tercile: int = 128
    at_longest: int = 128
    tests: int = 384
    calibration: int = 256
    evaluation: int = 1024

    def model_config(self) -> LoopedConfig:
        return LoopedConfig.parity(d=self.d, heads=self.heads, tau=self.test + EXTRA, length=self.test + EXTRA)


CONFIGS: dict[str, Settings] = {
    "paper": Settings(
        config="paper", d=256, heads=64, longest=21, scale=0.02, rate=1e-4, patience=5000, settle=20000, check=1000
    ),
    "small": Settings(),
    "demo": Settings(
        config="demo", d=32, longest=12, test=14, pool=400, rate=2e-3, warmup=50, noise=0.05, patience=300, settle=150,
        average=0.98, check=100, keep=100, checkpoints=4, m=512, per_tercile=16, at_longest=16, tests=100,
        calibration=64, evaluation=64,
    ),
    "smoke": Settings(
        config="smoke", d=16, heads=4, longest=4, test=16, pool=16, rate=3e-3, warmup=5, batch=16, groups=2, bar=0.3,
        patience=10, settle=20, check=20, keep=5, checkpoints=3, m=64, per_tercile=4, at_longest=4, tests=8,
        calibration=16, evaluation=32,
    ),
}  # fmt: skip


def configuration(name: str) -> Settings:
    """Settings by name."""
    return find_configuration(CONFIGS, name)
