"""train: a recursive chat model in two stages; a killed run goes on where it was.

- mid: the loss is taken on all tokens; tuned: it begins with mid's last weights, the loss is the assistant's tokens'.
- The number of loop steps is drawn anew for a batch, Poisson log-normal, or always `fixed`; gradients go through the
  last `bptt` steps.
- Weights are averaged over the last updates; the average is what is tested and what the last checkpoint holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from sdi.backends import room
from sdi.inputs.checkpoints import find_checkpoints

from .. import base
from .answers import answered
from .chat import Chat
from .model import fresh_model
from .settings import Settings

BETAS = (0.9, 0.95)
BATCHES = 7  # the stream of random numbers that batches are drawn from


@dataclass
class Progress(base.Progress):
    """The state of training, except for tensors: step, loss, accuracies, time."""

    running: float = 5.0  # loss


class Trainer(base.Trainer[Settings, Progress]):
    """One stage in a folder. settings: with the stage. chat: the conversations. start: a checkpoint to begin with."""

    def __init__(self, folder: Path, settings: Settings, chat: Chat, start: Path | None = None) -> None:
        model = fresh_model(settings)
        if start is not None:
            weights = find_checkpoints([start])[0].weights()
            model.load_state_dict({name: torch.as_tensor(w) for name, w in weights.items()})
        optimiser = torch.optim.AdamW(
            model.parameters(), lr=settings.stage_rate, betas=BETAS, weight_decay=settings.decay
        )
        super().__init__(folder, settings, model, optimiser, Progress(), BATCHES)
        self.chat = chat

    @property
    def rate(self) -> float:
        s = self.settings
        return base.rate_at(self.at.step, s.stage_updates, s.stage_rate, s.warmup, s.settle, s.floor)

    @property
    def done(self) -> bool:
        return self.at.step >= self.settings.stage_updates

    def step(self) -> None:
        """One batch, one update."""
        s, at = self.settings, self.at
        batch = self.chat.draw(self.rng, everything=s.stage == "mid")
        loops = s.fixed or base.draw_loops(self.rng, s.loops, s.spread, s.most_loops)
        batch["tau"] = torch.full((s.batch,), loops)
        self.optimiser.zero_grad()
        loss = room("fast").token_cross_entropy(self.model, batch).mean()
        torch.autograd.backward(loss)
        self.update()
        at.running = 0.98 * at.running + 0.02 * float(loss.detach())
        if at.step in {round(s.stage_updates * (k + 1) / s.checkpoints) for k in range(s.checkpoints)}:
            self.checkpoint()

    def measure(self) -> dict[str, float]:
        """The share of held-out problems that the averaged weights answer rightly, at the mean number of loop steps."""
        s = self.settings
        some = self.chat.corpus.test["problems"][: s.checked]
        right = answered(self.averaged(), some, self.chat.tokenizer, s.loops)
        return {"step": self.at.step, "loss": self.at.running, "rate": self.rate, "right": float(right.mean())}


def train(
    folder: Path,
    settings: Settings,
    chat: Chat,
    start: Path | None = None,
    tell: Callable[[Trainer], None] = lambda trainer: None,
    most: int | None = None,
) -> Trainer:
    """Train one stage, or continue, until done or until step `most`.

    folder: holds state and checkpoints; refused if it was begun with other settings. settings: with the stage.
    chat: the conversations. start: a checkpoint to begin with. tell: called with the trainer after every step.
    """

    def make(folder: Path, settings: Settings) -> Trainer:
        return Trainer(folder, settings, chat, start)

    return base.train(make, folder, settings, tell, most)
