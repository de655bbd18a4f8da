"""Resumable training: a killed run goes on from its last state and ends with the very same weights.

The whole state (weights, AdamW's moments, averaged weights, random numbers, history) is one file, renamed into place.
Checkpoints hold weights and, as metadata, the learning rate of their last update. A folder that was begun with other
settings is refused.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from sdi.errors import StoreError
from sdi.files import write_whole
from sdi.store.lock import locked

CLIP = 1.0  # of the gradient's norm
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class TrainerSettings(Protocol):
    """What a Trainer asks of an experiment's settings."""

    @property
    def seed(self) -> int: ...

    @property
    def average(self) -> float:
        """The memory of the averaged weights, from 0 to 1."""

    @property
    def check(self) -> int:
        """Steps between tests."""

    @property
    def keep(self) -> int:
        """Steps between states that a killed run goes on from."""

    def to_dict(self) -> dict[str, Any]: ...

    def training(self) -> dict[str, Any]:
        """The settings that the weights depend on."""


@dataclass
class Progress:
    """The state of training, except for tensors. An experiment may add fields of plain values."""

    step: int = 0
    seconds: float = 0.0  # of wall time
    cpu: float = 0.0  # seconds of this process's work
    checks: list[dict[str, float]] = field(default_factory=list)
    rng: dict[str, Any] = field(default_factory=dict)


S = TypeVar("S", bound=TrainerSettings)
P = TypeVar("P", bound=Progress)
T = TypeVar("T", bound="Trainer[Any, Any]")


class Trainer(ABC, Generic[S, P]):
    """A training run in a folder.

    folder: of its state and checkpoints. settings: of the experiment. model, optimiser: as they begin. at: the
    experiment's Progress, as it begins. stream: the number of the stream of random numbers that batches are drawn from.
    """

    def __init__(
        self, folder: Path, settings: S, model: nn.Module, optimiser: torch.optim.AdamW, at: P, stream: int
    ) -> None:
        self.folder, self.settings, self.optimiser, self.at = folder, settings, optimiser, at
        self.model: Any = model
        self.average = {name: p.detach().clone() for name, p in model.named_parameters()}
        for p in model.parameters():  # so that a state can be saved, and loaded, before the first step
            optimiser.state[p] = {
                "step": torch.zeros(()), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p),
            }  # fmt: skip
        self.rng = np.random.default_rng([settings.seed, stream])
        self.noise = torch.Generator().manual_seed(settings.seed)

    @property
    @abstractmethod
    def rate(self) -> float:
        """The learning rate of the next update."""

    @property
    @abstractmethod
    def done(self) -> bool: ...

    @abstractmethod
    def step(self) -> None:
        """Take one batch and one update: gradients, then `update`; perhaps a `checkpoint`."""

    @abstractmethod
    def measure(self) -> dict[str, float]:
        """Test the model, for the history."""

    def update(self) -> None:
        """Clip the gradients, step at `rate`, average the weights."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimiser.step()
        self.at.step += 1
        memory = min(self.settings.average, self.at.step / (self.at.step + 10))
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                self.average[name].lerp_(p, 1 - memory)

    def averaged(self) -> Any:
        """A model with the averaged weights."""
        model = type(self.model)(self.model.config)
        model.load_state_dict(self.average)
        return model

    def checkpoint(self) -> None:
        """Write the weights with the rate of the last update; at the very end, the averaged weights."""
        weights = self.average if self.done else {n: p.detach() for n, p in self.model.named_parameters()}
        write_checkpoint(self.folder, self.at.step, weights, self.optimiser.param_groups[0]["lr"])

    def save(self) -> None:
        """Write the whole state, atomically."""
        tensors = {"noise": self.noise.get_state()}
        for name, p in self.model.named_parameters():
            state = self.optimiser.state[p]
            tensors |= {f"weight/{name}": p.detach(), f"average/{name}": self.average[name]}
            tensors |= {f"{key}/{name}": state[key] for key in MOMENTS}
        self.at.rng = dict(self.rng.bit_generator.state)
        write_whole(self.folder / "state.safetensors", save(tensors, metadata={"at": json.dumps(asdict(self.at))}))

    def load(self) -> None:
        """Go on from the last state, if there is one."""
        path = self.folder / "state.safetensors"
        if not path.exists():
            return
        try:
            with safe_open(path, framework="pt") as file:
                at = type(self.at)(**json.loads(file.metadata()["at"]))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, TypeError, KeyError, ValueError) as error:
            raise StoreError(f"{path} is not the state of a run ({error}); remove it to begin anew") from None
        self.at = at
        self.rng.bit_generator.state = at.rng
        self.noise.set_state(tensors["noise"])
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                p.copy_(tensors[f"weight/{name}"])
                self.average[name].copy_(tensors[f"average/{name}"])
                for key in MOMENTS:
                    self.optimiser.state[p][key].copy_(tensors[f"{key}/{name}"])


def train(
    make: Callable[[Path, S], T],
    folder: Path,
    settings: S,
    tell: Callable[[T], None] = lambda trainer: None,
    most: int | None = None,
) -> T:
    """Train, or continue, until done or until step `most`.

    make: the experiment's Trainer. folder: holds state and checkpoints; refused if it was begun with other settings.
    settings: model and training. tell: called with the trainer after every step.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        claim(folder / "settings.json", settings)
        trainer = make(folder, settings)
        trainer.load()
        wall, cpu = trainer.at.seconds - time.monotonic(), trainer.at.cpu - time.process_time()
        while not trainer.done and (most is None or trainer.at.step < most):
            trainer.step()
            if trainer.done or trainer.at.step % settings.check == 0:
                trainer.at.checks.append(trainer.measure())
            if trainer.done or trainer.at.step % settings.keep == 0:
                trainer.at.seconds, trainer.at.cpu = wall + time.monotonic(), cpu + time.process_time()
                trainer.save()
            tell(trainer)
    return trainer


def claim(path: Path, settings: TrainerSettings) -> None:
    """Write the settings of a new folder; compare with those of an old one."""
    mine = settings.training()
    if not path.exists():
        write_whole(path, (json.dumps(settings.to_dict(), indent=1) + "\n").encode())
        return
    theirs = json.loads(path.read_text())
    odd = [k for k in mine if theirs.get(k) != mine[k]]
    if odd:
        words = ", ".join(f"{k}={theirs.get(k)!r} there, {mine[k]!r} asked" for k in odd)
        raise StoreError(f"{path.parent} was begun with other settings ({words}); use another folder")


def write_checkpoint(folder: Path, step: int, weights: Mapping[str, Tensor], eta: float) -> None:
    """FOLDER/checkpoints/step-000000.safetensors, with eta as metadata, where `sdi.find_checkpoints` looks for it.

    folder: of the run. step: updates so far. weights: tensors by name. eta: the rate of the last update.
    """
    place = folder / "checkpoints"
    place.mkdir(parents=True, exist_ok=True)
    content = save({n: w.contiguous() for n, w in weights.items()}, metadata={"eta": repr(eta)})
    write_whole(place / f"step-{step:06d}.safetensors", content)


def rate_at(step: int, updates: int, rate: float, warmup: int, settle: float, floor: float) -> float:
    """The learning rate of update `step` of `updates`: it rises, stays, and falls along a cosine at the end.

    rate: the highest. warmup: updates over which it rises. settle: the share of the updates over which it falls.
    floor: of the rate, at the end.

    >>> [round(rate_at(step, 100, 1.0, 10, 0.2, 0.0), 9) for step in (0, 50, 90)]
    [0.1, 1.0, 0.5]
    """
    left = (updates - step) / max(1.0, settle * updates)
    falling = floor + (1 - floor) * (1 - math.cos(math.pi * min(1.0, left))) / 2
    return rate * min(1.0, (step + 1) / warmup) * falling
