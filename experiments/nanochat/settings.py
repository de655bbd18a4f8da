"""Settings: all that a nanochat run depends on, in three sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sdi.inputs.looped_config import LoopedConfig

from ..base import ExperimentSettings, find_configuration

STAGES = ("mid", "tuned")


@dataclass(frozen=True)
class Settings(ExperimentSettings):
    """All settings of a nanochat run: corpus, model, training, analysis. The defaults are the configuration "small"."""

    ANALYSIS: ClassVar = (
        "config", "m", "source", "sample", "queries", "horizons", "draws", "check", "keep", "checked", "focus",
        "of_source", "on_task", "probed", "jacobians", "iterations", "swaps", "pairs", "samples",
    )  # fmt: skip

    config: str = "small"
    seed: int = 0
    stage: str = "mid"  # mid-training, on all tokens; or "tuned", fine-tuning on the assistant's tokens
    conversations: int = 4000  # for training, of each source
    held_out: int = 400  # for the test, of each source
    vocab: int = 512  # tokens, those that mark turns among them
    length: int = 96  # tokens of a conversation; longer ones are cut
    d: int = 64
    heads: int = 4
    prelude: int = 1  # blocks
    core: int = 2
    coda: int = 1
    scale: float = 0.05  # of the initial matrices
    loops: int = 4  # mean of the Poisson rate of loop steps in training
    spread: float = 0.5  # sigma of the log-rate
    most_loops: int = 16
    fixed: int = 0  # loop steps of every batch of training; 0: drawn anew for each, as above
    bptt: int = 4  # the last steps that training takes gradients of
    batch: int = 32
    updates: int = 2500  # of mid-training
    tuning_updates: int = 600
    rate: float = 2e-3
    tuning_rate: float = 5e-4
    warmup: int = 100  # updates
    settle: float = 0.3  # share of a stage's updates at the end, over which the rate falls to the floor
    floor: float = 0.02  # of the rate, at the end
    decay: float = 0.0  # of the matrices
    average: float = 0.99  # weights are averaged with this memory
    check: int = 500  # updates between tests
    keep: int = 250  # updates between states that a killed run goes on from
    checkpoints: int = 3  # of each stage
    checked: int = 100  # held-out problems that are answered in a test
    source: str = "problems"  # whose training conversations act on its held-out ones
    sample: int = 96  # training conversations whose influence is computed
    queries: int = 64  # held-out ones
    horizons: tuple[int, ...] = (2, 3, 4, 6, 8, 12, 16)
    focus: int = 8  # the horizon of what is asked at one only: sources, swaps, preferences, rewards
    draws: int = 1000  # of the bootstrap
    m: int = 1024
    of_source: int = 32  # training conversations of each source, in the table of sources by steps
    on_task: int = 24  # held-out ones of each
    probed: int = 128  # held-out problems whose states are probed
    jacobians: int = 8  # held-out problems at whose states the step's Jacobian is taken
    iterations: int = 20  # of its power iteration
    swaps: tuple[int, ...] = (1, 2, 4, 8, 16)  # steps whose states are put in the place of step focus / 2
    pairs: int = 48  # preference pairs, or questions, of training; half as many are held out
    samples: int = 4  # answers to a question

    @property
    def stage_updates(self) -> int:
        return self.updates if self.stage == "mid" else self.tuning_updates

    @property
    def stage_rate(self) -> float:
        return self.rate if self.stage == "mid" else self.tuning_rate

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "horizons": list(self.horizons), "swaps": list(self.swaps)}  # as JSON has it

    @property
    def control(self) -> Settings:
        """The same with a fixed number of loop steps, the mean of those that are drawn."""
        return replace(self, fixed=self.loops + 1)

    def at_stage(self, stage: str) -> Settings:
        return replace(self, stage=stage)

    def model_config(self, tau: int | None = None, truncated: bool = True) -> LoopedConfig:
        """The model. tau: loop steps of a batch that does not say; by default the mean of training.

        truncated: keep gradients of the last `bptt` steps only, as in training; else of all steps.
        """
        return LoopedConfig.looped_gpt(
            vocab=self.vocab, classes=self.vocab, d=self.d, heads=self.heads, tau=tau or self.loops, length=self.length,
            prelude=self.prelude, core=self.core, coda=self.coda, bptt=self.bptt if truncated else None,
        )  # fmt: skip


CONFIGS: dict[str, Settings] = {
    "paper": Settings(
        config="paper", conversations=100000, held_out=2000, vocab=65536, length=2048, d=1280, heads=10, prelude=2,
        core=4, coda=2, scale=0.02, updates=100000, tuning_updates=20000, rate=3e-4, tuning_rate=5e-5, warmup=1000,
        check=5000, keep=1000, checkpoints=80, sample=1024, queries=1024, horizons=tuple(range(2, 17)), m=2048,
    ),
    "small": Settings(),
    "smoke": Settings(
        config="smoke", conversations=60, held_out=20, vocab=320, d=16, heads=2, prelude=1, core=1, coda=1, batch=8,
        updates=12, tuning_updates=6, warmup=3, average=0.9, check=6, keep=5, checkpoints=2, checked=8, sample=10,
        queries=8, horizons=(2, 6), focus=6, draws=100, m=64, of_source=4, on_task=3, probed=8, jacobians=2,
        iterations=3, swaps=(1, 3), pairs=4, samples=2,
    ),
}  # fmt: skip


def configuration(name: str) -> Settings:
    """Settings by name."""
    return find_configuration(CONFIGS, name)
