"""train: a looped transformer learns parity by a length curriculum; a killed run goes on where it was.

- Lengths grow by a bit as the running loss falls; then all lengths are trained at a rate that falls to a floor.
- A batch holds few lengths, each without padding: the loop of n bits is n steps long, and "=" is the last token.
- Noise on the state, in training only, asks for states that pull back what strays. See docs/results/parity/tried.md.
- Weights are averaged over the last steps: during training this is steadier at twice the length. The average is what is
  tested and what the last checkpoint holds.
- The whole state (weights, moments, average, random numbers, history) is one file, renamed into place.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from sdi.backends import room
from sdi.errors import StoreError
from sdi.files import write_whole
from sdi.store.lock import locked

from .forward import accuracy
from .settings import SHORTEST, Settings
from .strings import STEPS, encode, held_out, labels_of, training_strings

BETAS, CLIP = (0.9, 0.999), 1.0
CHECKED = 64  # strings of each length in a check


@dataclass
class Progress:
    """The state of training, except for tensors: step, length, loss, accuracies, time."""

    step: int = 0
    length: int = SHORTEST
    since: int = 0  # steps at this length
    running: float = 1.0  # loss
    end: int | None = None  # the last step, known once the lengths are all learned
    seconds: float = 0.0  # of wall time
    cpu: float = 0.0  # seconds of this process's work
    checks: list[dict[str, float]] = field(default_factory=list)
    rng: dict[str, Any] = field(default_factory=dict)


class Trainer:
    """A training run in a folder. settings: the model and its training."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings, self.at = folder, settings, Progress()
        init = room("fast").LoopedTransformer.init
        self.model = init(settings.model_config(), seed=settings.seed, scale=settings.scale)
        self.average = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=settings.rate, betas=BETAS, weight_decay=settings.decay
        )
        for p in self.model.parameters():  # so that a state can be saved, and loaded, before the first step
            self.optimiser.state[p] = {
                "step": torch.zeros(()), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p),
            }  # fmt: skip
        self.rng = np.random.default_rng([settings.seed, STEPS])
        self.noise = torch.Generator().manual_seed(settings.seed)
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
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate
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
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimiser.step()
        at.step, at.since, at.running = at.step + 1, at.since + 1, 0.95 * at.running + 0.05 * value
        memory = min(s.average, at.step / (at.step + 10))
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                self.average[name].lerp_(p, 1 - memory)
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

    def checkpoint(self) -> None:
        """The weights with the rate of the last update; at the very end, the averaged weights."""
        weights = self.average if self.done else {n: p.detach() for n, p in self.model.named_parameters()}
        eta = self.optimiser.param_groups[0]["lr"]
        content = save({n: w.contiguous() for n, w in weights.items()}, metadata={"eta": repr(eta)})
        place = self.folder / "checkpoints"
        place.mkdir(exist_ok=True)
        write_whole(place / f"step-{self.at.step:06d}.safetensors", content)

    def check(self) -> dict[str, float]:
        """Accuracy at the current length, at the middle and at the test length; of the weights and of their average."""
        s, at = self.settings, self.at
        out: dict[str, float] = {"step": at.step, "length": at.length, "loss": at.running, "rate": self.rate}
        middle = (s.longest + s.test) // 2
        averaged = self.averaged()
        for name, n in (("train", at.length), ("middle", middle), ("test", s.test)):
            strings = held_out(s, n, CHECKED) or training_strings(s, n)[:CHECKED]
            out[name] = accuracy(averaged, strings)
            out[f"{name}_raw"] = accuracy(self.model, strings)
        at.checks.append(out)
        return out

    def averaged(self) -> Any:
        """A model with the averaged weights."""
        model = type(self.model)(self.model.config)
        model.load_state_dict(self.average)
        return model

    def save(self) -> None:
        """The whole state, atomically."""
        tensors = {"noise": self.noise.get_state()}
        for name, p in self.model.named_parameters():
            state = self.optimiser.state[p]
            tensors |= {f"weight/{name}": p.detach(), f"average/{name}": self.average[name]}
            tensors |= {f"{key}/{name}": state[key] for key in ("step", "exp_avg", "exp_avg_sq")}
        self.at.rng = dict(self.rng.bit_generator.state)
        write_whole(self.folder / "state.safetensors", save(tensors, metadata={"at": json.dumps(asdict(self.at))}))

    def load(self) -> None:
        """Go on from the last state, if there is one."""
        path = self.folder / "state.safetensors"
        if not path.exists():
            return
        try:
            with safe_open(path, framework="pt") as file:
                at = Progress(**json.loads(file.metadata()["at"]))
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
                for key in ("step", "exp_avg", "exp_avg_sq"):
                    self.optimiser.state[p][key].copy_(tensors[f"{key}/{name}"])


def train(
    folder: Path, settings: Settings, tell: Callable[[Trainer], None] = lambda trainer: None, most: int | None = None
) -> Trainer:
    """Train, or continue, until done or until step `most`.

    folder: holds state and checkpoints; refused if it was begun with other settings. settings: model and training.
    tell: called with the trainer after every step.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        claim(folder / "settings.json", settings)
        trainer = Trainer(folder, settings)
        trainer.load()
        wall, cpu = trainer.at.seconds - time.monotonic(), trainer.at.cpu - time.process_time()
        while not trainer.done and (most is None or trainer.at.step < most):
            trainer.step()
            if trainer.done or trainer.at.step % settings.check == 0:
                trainer.check()
            if trainer.done or trainer.at.step % settings.keep == 0:
                trainer.at.seconds, trainer.at.cpu = wall + time.monotonic(), cpu + time.process_time()
                trainer.save()
            tell(trainer)
    return trainer


def claim(path: Path, settings: Settings) -> None:
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
