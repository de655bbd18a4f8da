"""Settings of the meaning experiment: what is trained and judged, and what else is asked, in two sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..base import ExperimentSettings, find_configuration


@dataclass(frozen=True)
class Settings(ExperimentSettings):
    """All that the training and the judging of one task depend on. The defaults are parity in the size "small"."""

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
    average: float | None = None  # memory of the averaged weights, which queries then see
    end: int | None = None  # updates after which training is cut off; the rates are those of the whole
    queries: int = 16  # examples whose mean loss is a query: of each parity, half or source
    window: int = 60  # last updates, in which examples are left out
    groups: int = 40
    share: float = 0.05
    checkpoints: int = 8  # of TracIn
    qld: float | None = 0.01  # the share of top examples that is left out, too
    chance: int = 10  # random groups beside the strongest strings


@dataclass(frozen=True)
class Continued(ExperimentSettings):
    """The shipped parity model, trained on for a few updates, asked about strings with and without a period."""

    updates: int = 24  # Adam's first ones follow the signs of gradients alone, and are not smooth
    window: int = 4  # last updates
    batch: int = 16
    lengths: int = 4  # in a batch
    bits: int = 24  # of the probes
    rate: float = 1e-5


@dataclass(frozen=True)
class Study:
    """The tasks that are judged; variants of training, by name, whose smooth horizon is measured; the last part."""

    tasks: tuple[Settings, ...]
    variants: Mapping[str, Settings] = field(default_factory=dict)
    continued: Continued | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "tasks": [settings.to_dict() for settings in self.tasks],
            "variants": {name: settings.to_dict() for name, settings in self.variants.items()},
            "continued": None if self.continued is None else self.continued.to_dict(),
        }


PARITY = Settings()
SUDOKU = replace(PARITY, task="sudoku", examples=200, updates=600)
LANGUAGE = replace(PARITY, task="language", examples=200, batch=16, updates=600, length=64, window=30)
SMOKE = replace(
    PARITY, d=8, heads=2, longest=4, length=64, loops=2, examples=20, batch=8, updates=16, warmup=4, decay=8,
    queries=4, window=4, groups=10, share=0.1, checkpoints=2, qld=None, chance=2,
)  # fmt: skip
FAR = replace(PARITY, window=256)  # the longest window in which smoothness is measured
VARIANTS = {
    "as judged": FAR,
    "cut off at update 450": replace(FAR, end=450),
    "rate 1e-3": replace(FAR, rate=1e-3),
    "rate 1e-2": replace(FAR, rate=1e-2),
    "all 80 examples in a batch": replace(FAR, batch=80),
    "eps_root 1e-6": replace(FAR, eps_root=1e-6),
    "weights averaged over 50 updates": replace(FAR, average=0.98),
    "warm-up of 300 updates": replace(FAR, warmup=300),
}

CONFIGS: dict[str, Study] = {
    "small": Study((PARITY, SUDOKU, LANGUAGE), VARIANTS, Continued()),
    "parity": Study((PARITY,)),
    "sudoku": Study((SUDOKU,)),
    "language": Study((LANGUAGE,)),
    "smoke": Study((SMOKE,), {"as judged": SMOKE}, Continued(updates=3, window=1, batch=4, lengths=2, bits=12)),
    "smoke-sudoku": Study((replace(SMOKE, task="sudoku"),)),
    "smoke-language": Study((replace(SMOKE, task="language"),)),
}


def configuration(name: str) -> Study:
    """A study by name."""
    return find_configuration(CONFIGS, name)
