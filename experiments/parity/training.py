"""train: a looped transformer learns parity by a length curriculum; a killed run goes on where it was.

- Lengths grow by a bit as the running loss falls; then all lengths are trained at a rate that falls to a floor.
- A batch holds few lengths, each without padding: the loop of n bits is n steps long, and "=" is the last token.
- Noise on the state, in training only, asks for states that pull back what strays. See docs/results/parity/tried.md.
- Weights are averaged over the last steps: during training this is steadier at twice the length. The average is what is
  tested and what the last checkpoint holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from sdi.backends import room

from .. import base
from .forward import accuracy
from .settings import SHORTEST, Settings
from .strings import STEPS, encode, held_out, labels_of, training_strings

BETAS = (0.9, 0.999)
CHECKED = 64  # strings of each length in a check


@dataclass
class Progress(base.Progress):
    """The state of training, except for tensors: step, length, loss, accuracies, time."""

    length: int = SHORTEST
    since: int = 0  # steps at this length
    running: float = 1.0  # loss
    end: int | None = None  # the last step, known once the lengths are all learned


class Trainer(base.Trainer[Settings, Progress]):
    """A training run in a folder. settings: the model and its training."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        model = room("fast").LoopedTransformer.init(settings.model_config(), seed=settings.seed, scale=settings.scale)
        optimiser = torch.optim.AdamW(model.parameters(), lr=settings.rate, betas=BETAS, weight_decay=settings.decay)
        super().__init__(folder, settings, model, optimiser, Progress(), STEPS)
        pools = {n: training_strings(settings, n) for n in range(SHORTEST, settings.longest + 1)}
        self.tokens = {n: encode(strings) for n, strings in pools.items()}
        self.labels = {n: torch.from_numpy(labels_of(settings, strings)) for n, strings in pools.items()}

    @property
    def rate(self) -> float:
        """The learning rate: rises, stays, and falls along a cosine once all lengths are learned."""
        s, at = self.settings, self.at
        left = 1.0 if at.end is None else (at.end - at.step) / s.settle
        falling = s.floor + (1 - s.floor) * (1 - math.cos(math.pi * min(1.0, left))) / 2
        return s.rate * min(1.0, (at.step + 1) / s.warmup) * falling

    @property
    def done(self) -> bool:
        return self.at.end is not None and self.at.step >= self.at.end

    def step(self) -> None:
        """One batch, one update, and perhaps one more bit."""
        s, at = self.settings, self.at
        self.optimiser.zero_grad()
        # One group of the longest, the others spread evenly over all lengths.
        spread = (self.rng.random(s.groups - 1) + np.arange(s.groups - 1)) / max(1, s.groups - 1)
        lengths = [at.length, *(SHORTEST + np.floor(spread * (at.length - SHORTEST + 1)).astype(int))]
        value = 0.0
        with self.model.inject.register_forward_hook(self.add_noise):
            for n in lengths:
                rows = torch.from_numpy(self.rng.integers(0, len(self.labels[n]), s.batch // s.groups))
                steps = torch.full((len(rows),), int(n))
                logits = self.model({"tokens": self.tokens[n][rows], "tau": steps, "readout": steps})[:, -1]
                loss = F.cross_entropy(logits, self.labels[n][rows]) / s.groups
                torch.autograd.backward(loss)
                value += float(loss.detach())
        self.update()
        at.since, at.running = at.since + 1, 0.95 * at.running + 0.05 * value
        if at.end is None and (at.running < s.bar or at.since >= s.patience):
            self.checkpoint_at_length()
            if at.length == s.longest:
                at.end = at.step + s.settle
            else:
                at.length, at.since, at.running = at.length + 1, 0, max(at.running, min(1.0, 2 * s.bar))
        elif at.end is not None:
            self.checkpoint_while_settling()

    def add_noise(self, module: Any, inputs: Any, state: torch.Tensor) -> torch.Tensor:
        """A forward hook that adds noise to the state that enters a loop step."""
        return state + self.settings.noise * torch.randn(state.shape, generator=self.noise)

    def checkpoint_at_length(self) -> None:
        """Half of the checkpoints belong to the curriculum, at lengths that are spread evenly."""
        s, count = self.settings, self.settings.checkpoints // 2
        marks = {round(SHORTEST + (s.longest - SHORTEST) * (k + 1) / count) for k in range(count)}
        if self.at.length in marks:
            self.checkpoint()

    def checkpoint_while_settling(self) -> None:
        s, at = self.settings, self.at
        assert at.end is not None
        count = s.checkpoints - s.checkpoints // 2
        marks = {at.end - s.settle + round(s.settle * (k + 1) / count) for k in range(count)}
        if at.step in marks:
            self.checkpoint()

    def measure(self) -> dict[str, float]:
        """Accuracy at the current length, at the middle and at the test length; of the weights and of their average."""
        s, at = self.settings, self.at
        out: dict[str, float] = {"step": at.step, "length": at.length, "loss": at.running, "rate": self.rate}
        middle = (s.longest + s.test) // 2
        averaged = self.averaged()
        for name, n in (("train", at.length), ("middle", middle), ("test", s.test)):
            strings = held_out(s, n, CHECKED) or training_strings(s, n)[:CHECKED]
            out[name] = accuracy(averaged, strings)
            out[f"{name}_raw"] = accuracy(self.model, strings)
        return out


def train(
    folder: Path, settings: Settings, tell: Callable[[Trainer], None] = lambda trainer: None, most: int | None = None
) -> Trainer:
    """Train, or continue, until done or until step `most`.

    folder: holds state and checkpoints; refused if it was begun with other settings. settings: model and training.
    tell: called with the trainer after every step.
    """
    return base.train(Trainer, folder, settings, tell, most)
