"""Settings of the meaning experiment, in three sizes."""

from __future__ import annotations

from dataclasses import dataclass

from ..base import ExperimentSettings, find_configuration


@dataclass(frozen=True)
class Settings(ExperimentSettings):
    """All that a run depends on: model, training, counterfactual runs. The defaults are the configuration "small"."""

    config: str = "small"
    d: int = 32
    heads: int = 4
    longest: int = 6  # bits
    strings: int = 80  # training strings
    batch: int = 32
    updates: int = 900
    rate: float = 3e-3
    warmup: int = 50  # updates
    decay: int = 150  # last updates, in which the rate falls to a tenth
    eps_root: float = 0.0  # added under Adam's root
    queries: int = 16  # strings of each parity, whose mean loss is a query
    window: int = 60  # last updates, in which examples are left out
    groups: int = 24
    share: float = 0.05
    checkpoints: int = 8  # of TracIn
    qld: float | None = None  # the share of top examples that is left out, too


CONFIGS: dict[str, Settings] = {
    "small": Settings(),
    "large": Settings(
        config="large", longest=8, strings=336, updates=1200, queries=32, window=150, groups=60, qld=0.01
    ),
    "smoke": Settings(
        config="smoke", d=8, heads=2, longest=4, strings=20, batch=8, updates=24, warmup=4, decay=8, queries=4,
        window=8, groups=10, share=0.1, checkpoints=2, qld=0.05,
    ),
}  # fmt: skip


def configuration(name: str) -> Settings:
    """Settings by name."""
    return find_configuration(CONFIGS, name)
