"""train: a looped transformer learns Sudoku; a killed run goes on where it was.

- The number of loop steps is drawn anew for every batch, Poisson log-normal. Its mean grows while the rate is constant:
  the first things to learn need few steps, and few steps are cheap.
- With `relabel`, the digits of every board are renamed at random each time it is met: the same puzzle in other names.
- The loss is taken on the blanks, after every loop step or after the last.
- Weights are averaged over the last updates; the average is what is tested and what the last checkpoint holds.
- The rate rises, stays, and falls along a cosine over the last updates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from sdi.backends import room

from .. import base
from .accuracy import solved_at
from .settings import Settings
from .split import STEPS, Split, split

BETAS = (0.9, 0.95)
CHECKED = 128  # boards of each side in a check


@dataclass
class Progress(base.Progress):
    """The state of training, except for tensors: step, loss, accuracies, time."""

    running: float = 2.0  # loss


class Trainer(base.Trainer[Settings, Progress]):
    """A training run in a folder. settings: the boards, the model and its training. boards: by default generated."""

    def __init__(self, folder: Path, settings: Settings, boards: Split | None = None) -> None:
        model = fresh_model(settings)
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() == 1]
        groups = [{"params": matrices, "weight_decay": settings.decay}, {"params": vectors, "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW(groups, lr=settings.rate, betas=BETAS)
        super().__init__(folder, settings, model, optimiser, Progress(), STEPS)
        self.boards = split(settings) if boards is None else boards
        self.tokens = torch.from_numpy(self.boards.train.puzzle.astype(np.int64))
        self.targets = torch.from_numpy(self.boards.train.solution.astype(np.int64)) - 1

    @property
    def rate(self) -> float:
        s = self.settings
        return base.rate_at(self.at.step, s.updates, s.rate, s.warmup, s.settle, s.floor)

    @property
    def mean_loops(self) -> float:
        """The mean number of loop steps of the next batch: grows by a constant factor until the rate begins to fall."""
        s = self.settings
        part = min(1.0, self.at.step / max(1.0, (1 - s.settle) * s.updates))
        return float(s.first_loops ** (1 - part) * s.loops**part)

    @property
    def done(self) -> bool:
        return self.at.step >= self.settings.updates

    def step(self) -> None:
        """One batch, one update."""
        s, at = self.settings, self.at
        rows = torch.from_numpy(self.rng.integers(0, len(self.tokens), s.batch))
        self.optimiser.zero_grad()
        loops = base.draw_loops(self.rng, self.mean_loops, s.spread, s.most_loops)
        tokens, targets = self.tokens[rows], self.targets[rows]
        if s.relabel:
            tokens, targets = relabelled(tokens, targets, self.rng, s.size)
        loss = self.loss(tokens, targets, loops)
        torch.autograd.backward(loss)
        self.update()
        at.running = 0.98 * at.running + 0.02 * float(loss.detach())
        marks = {round(s.updates * (k + 1) / s.checkpoints) for k in range(s.checkpoints)}
        if at.step in marks:
            self.checkpoint()

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor, loops: int) -> torch.Tensor:
        """Mean cross-entropy of the blanks, over the loop steps if `every`."""
        model, blank = self.model, tokens == 0
        x = model.read_in(tokens) + model.positions(torch.arange(tokens.shape[1]))
        kept = []
        for t in range(1, loops + 1):
            x = model.core(x)
            if self.settings.every or t == loops:
                kept.append(x[blank])
        logits = model.head(model.norm_out(torch.cat(kept)))
        return F.cross_entropy(logits, targets[blank].repeat(len(kept)))

    def measure(self) -> dict[str, float]:
        """The share of boards solved, on either side, by the averaged weights, at the mean number of loop steps."""
        s, at = self.settings, self.at
        out: dict[str, float] = {"step": at.step, "loss": at.running, "rate": self.rate}
        averaged = self.averaged()
        for name, boards in zip(("train", "test"), self.boards, strict=True):
            some = boards.take(np.arange(min(CHECKED, len(boards.puzzle))))
            out[name] = float(solved_at(averaged, some, [s.loops]).mean())
        return out


def relabelled(
    tokens: torch.Tensor, targets: torch.Tensor, rng: np.random.Generator, size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same boards with their digits renamed, each board by a permutation of its own; blanks stay blank.

    tokens: (n, cells), 0 for a blank, else the digit. targets: (n, cells), the solution's digits less one.

    >>> tokens, targets = torch.tensor([[1, 0, 2, 0]]), torch.tensor([[0, 1, 1, 0]])
    >>> new, solution = relabelled(tokens, targets, np.random.default_rng(3), 2)
    >>> new.tolist(), solution.tolist()
    ([[2, 0, 1, 0]], [[1, 0, 0, 1]])
    """
    names = torch.from_numpy(rng.permuted(np.tile(np.arange(size), (len(tokens), 1)), axis=1))
    with_blank = F.pad(names + 1, (1, 0))  # the token of a blank is 0
    return with_blank.gather(1, tokens), names.gather(1, targets)


def fresh_model(settings: Settings) -> Any:
    """The model before training."""
    model = room("fast").LoopedTransformer.init(settings.model_config(), seed=settings.seed, scale=settings.scale)
    with torch.no_grad():
        for module in (model.read_in, model.positions):
            module.weight.mul_(settings.embed / settings.scale)
    return model


def train(
    folder: Path,
    settings: Settings,
    tell: Callable[[Trainer], None] = lambda trainer: None,
    most: int | None = None,
    boards: Split | None = None,
) -> Trainer:
    """Train, or continue, until done or until step `most`.

    folder: holds state and checkpoints; refused if it was begun with other settings. settings: model and training.
    tell: called with the trainer after every step. boards: by default generated.
    """

    def make(folder: Path, settings: Settings) -> Trainer:
        return Trainer(folder, settings, boards)

    return base.train(make, folder, settings, tell, most)
