"""The parity task, small: a looped transformer learns from scratch whether a bit string holds an odd number of ones.

An example is n bits, "=" and padding. The state at "=" is read out after n loop steps and must say the parity; later
steps are causally unused, so their influence is exactly zero. There are no positions: the loop has to do the counting.
Training draws from a fixed pool of strings; what is not in the pool is held out. The length grows as each is learned.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig
from sdi.run.one_thread import one_thread

EQUALS, PAD = 2, 3
SHORTEST = 2


@dataclass(frozen=True)
class Parity:
    """Sizes and schedule. The defaults take about twenty seconds on one core."""

    longest: int = 12  # bits
    d: int = 32
    heads: int = 8
    scale: float = 0.1  # of the initial matrices
    rate: float = 2e-3
    batch: int = 64
    bar: float = 0.1  # a running loss below this adds a bit; at the longest length, it begins the end
    decay: int = 150  # steps of falling learning rate at the end
    most: int = 1500  # steps, whatever was learned
    seed: int = 0

    @property
    def config(self) -> LoopedConfig:
        return LoopedConfig.parity(d=self.d, heads=self.heads, tau=self.longest + 2, length=self.longest + 2)

    def model(self) -> Any:
        """Fresh weights."""
        return room("fast").LoopedTransformer.init(self.config, seed=self.seed, scale=self.scale)


@dataclass
class Trained:
    """What training left: checkpoints, each with its learning rate beside it, and how it went."""

    model: Any
    checkpoints: list[Path] = field(default_factory=list)
    steps: int = 0
    length: int = SHORTEST  # the longest that training came to


def pool(n: int, seed: int = 0, most: int = 400) -> list[str]:
    """The training strings of n bits: all of the short ones, some of the others; never the alternating ones."""
    if n < 6:
        return [f"{code:0{n}b}" for code in range(2**n)]
    codes = np.random.default_rng([seed, n]).permutation(2**n)[: min(most, 3 * 2**n // 4)]
    return [s for s in (f"{code:0{n}b}" for code in codes) if s not in (alternating(n, "01"), alternating(n, "10"))]


def held_out(n: int, seed: int = 0, most: int = 100) -> list[str]:
    """Strings of n bits that are not in the pool."""
    known = set(pool(n, seed))
    codes = np.random.default_rng([seed, n, 1]).permutation(2**n)
    strings = (f"{code:0{n}b}" for code in codes)
    return [s for s in strings if s not in known][:most]


def alternating(n: int, pattern: str = "01") -> str:
    """The probe: a pattern, repeated.

    >>> alternating(5)
    '01010'
    """
    return (pattern * n)[:n]


def make_batch(strings: Sequence[str], extra: int = 2) -> dict[str, Any]:
    """A batch of bit strings, named by themselves. Each loops `extra` steps beyond its read-out."""
    import torch

    length = max(map(len, strings)) + 2
    rows = [[int(b) for b in s] + [EQUALS] + [PAD] * (length - len(s) - 1) for s in strings]
    n = torch.tensor([len(s) for s in strings])
    targets = torch.zeros(len(strings), length, dtype=torch.long)
    targets[torch.arange(len(strings)), n] = torch.tensor([s.count("1") % 2 for s in strings])
    mask = torch.zeros(len(strings), length)
    mask[torch.arange(len(strings)), n] = 1.0
    return {
        "id": list(strings), "tokens": torch.tensor(rows), "targets": targets, "mask": mask,
        "tau": n + extra, "readout": n,
    }  # fmt: skip


def make_loader(strings: Sequence[str], batch: int = 32) -> list[dict[str, Any]]:
    """Batches of strings, in their order."""
    return [make_batch(strings[i : i + batch]) for i in range(0, len(strings), batch)]


def loss(model: Any, batch: Any) -> Any:
    """Cross-entropy at "=", one value per example."""
    return room("fast").token_cross_entropy(model, batch)


def accuracy(model: Any, strings: Sequence[str]) -> float:
    """The share of strings whose parity the model gets right."""
    import torch

    batch = make_batch(strings, extra=0)
    n = batch["readout"]
    with torch.no_grad():
        said = model(batch)[torch.arange(len(n)), n].argmax(dim=-1)
    return float((said == batch["targets"][torch.arange(len(n)), n]).double().mean())


def train_parity(
    folder: Path, task: Parity | None = None, tell: Callable[[int, int, float], None] = lambda step, length, loss: None
) -> Trained:
    """Train from scratch, leaving checkpoints at three quarters of the length, towards all of it, and at the end."""
    import torch
    from safetensors.torch import save_file

    task = task or Parity()
    out = Trained(task.model())
    rng = np.random.default_rng(task.seed)
    pools = {n: pool(n, task.seed) for n in range(SHORTEST, task.longest + 1)}
    optimiser = torch.optim.AdamW(out.model.parameters(), lr=task.rate, weight_decay=0.01)
    milestones = {n for n in (task.longest * 3 // 4, task.longest - 1, task.longest) if n >= SHORTEST}
    running, end = 1.0, task.most

    def save(name: str, eta: float) -> None:
        path = folder / f"{len(out.checkpoints) + 1}-{name}.safetensors"
        save_file(out.model.state_dict(), path)
        path.with_suffix(".json").write_text(json.dumps({"eta": eta}) + "\n")
        out.checkpoints.append(path)

    with one_thread():
        while out.steps < end:
            falling = min(1.0, (end - out.steps) / task.decay)  # 1 until the end has begun
            rate = task.rate * min(1.0, (out.steps + 1) / 50) * max(0.02, (1 - math.cos(math.pi * falling)) / 2)
            for group in optimiser.param_groups:
                group["lr"] = rate
            lengths = rng.integers(SHORTEST, out.length + 1, task.batch)
            strings = [pools[n][rng.integers(len(pools[n]))] for n in lengths]
            value = loss(out.model, make_batch(strings, extra=0)).mean()
            optimiser.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_(out.model.parameters(), 1.0)
            optimiser.step()
            out.steps += 1
            running = 0.95 * running + 0.05 * float(value.detach())
            tell(out.steps, out.length, running)
            if running < task.bar and out.length in milestones:
                save(f"{out.length}-bits", rate)
                milestones.remove(out.length)
            if running < task.bar and out.length < task.longest:
                out.length += 1
                running = min(1.0, 2 * task.bar)
            elif running < task.bar:
                end = min(end, out.steps + task.decay)
        save("end", rate)
    return out
