"""What a device must give: the CPU's numbers, from the same weights, batches and sketches, by every way to them.

Each check returns how far the two are apart, as a share of the largest number. Models are tiny: the checks are of ways
through the engine, not of speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sdi import attribute
from sdi.backends import room
from sdi.loop import Loop
from sdi.sketch.load import SHIPPED
from sdi.sketch.sketch_map import SketchMap

from .cases import Case, gpt, sudoku

Check = Callable[[torch.device], float]
ALLOWED = {torch.float32: 1e-4, torch.float64: 1e-9}
CPU = torch.device("cpu")
D, LENGTH = 6, 5


def device_checks() -> dict[str, Check]:
    """All checks, by name. Audits, which take several passes, are on in some of both memory modes."""
    checks: dict[str, Check] = {}
    for name in SHIPPED:
        checks[f"sketch {name!r}"] = partial(_transformer, sudoku(quick=True), "hooks", "off", sketch=name)
    small = gpt(2, quick=True)
    checks["transformer, recompute, audited, and a later batch"] = partial(_transformer, small, "recompute", "first")
    for memory in ("hooks", "recompute"):
        checks[f"transformer, {memory}, summed over steps"] = partial(_transformer, small, memory, "off", steps=False)
    for name, core in CORES.items():
        checks[f"{name}, hooks, audited"] = partial(_looped, core, "hooks", "first")
        checks[f"{name}, recompute"] = partial(_looped, core, "recompute", "off")
    checks["random numbers of the device, hooks and recompute"] = _dropout
    checks["exact scores"] = _exact
    checks["attribute, with a store"] = _attribute
    return checks


class OwnNorm(nn.Module):
    """A norm that the engine does not know: it is served by replay."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-5)


class Packed(nn.Module):
    """A map of rows in another order than that of the examples: whose they are is found by values."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, 1)
        order = torch.arange(len(rows), device=x.device).flip(0)
        return torch.zeros_like(rows).index_copy(0, order, self.map(rows[order])).view(x.shape)


class Flattened(nn.Module):
    """A map of rows of all examples, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x.reshape(-1, D)).view(x.shape)


class Convolved(nn.Module):
    """A convolution over the tokens, and a norm with running statistics, which are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(D, D, 3, padding=1), nn.BatchNorm1d(D)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x.transpose(1, 2))).transpose(1, 2)


class Looped(nn.Module):
    """read, three times a gated core, head. The gate is used by name."""

    scale: Tensor

    def __init__(self, core: nn.Module) -> None:
        super().__init__()
        self.read, self.start, self.core, self.head = nn.Linear(4, D), nn.Identity(), core, nn.Linear(D, 3)
        self.gate = nn.Parameter(torch.ones(D))
        self.register_buffer("scale", torch.tensor([0.5]))

    def forward(self, x: Tensor) -> Tensor:
        h = self.read(x)
        for _ in range(3):
            h = self.start(h)
            h = torch.tanh(h + self.scale * self.gate * self.core(h))
        return self.head(h)


CORES: dict[str, Callable[[], nn.Module]] = {
    "a module that is replayed": OwnNorm,
    "rows in another order": Packed,
    "rows of all examples": Flattened,
    "convolution and buffers": Convolved,
}
GATED = Loop(body=["core", "gate"], step="start")


def square_loss(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    return (model(batch["x"]) - batch["y"]).square().flatten(1).mean(dim=1)


def relative(here: np.ndarray, there: np.ndarray) -> float:
    """The largest difference as a share of the largest number."""
    if here.shape != there.shape:
        raise ValueError(f"the CPU gave an array of shape {here.shape}, the device one of shape {there.shape}")
    return float(np.abs(here - there).max() / max(float(np.abs(here).max()), 1e-30))


def moved(batch: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: x.to(device) for name, x in batch.items()}


def double_of(device: torch.device) -> torch.dtype:
    """The finest type of numbers of a device."""
    return torch.float32 if device.type == "mps" else torch.float64


def _transformer(
    case: Case, memory: str, audit: str, device: torch.device, steps: bool = True, sketch: str = "tensor"
) -> float:
    """One batch, and if it is audited another one, which goes the way of all later ones."""
    fast, loop, shapes = room("fast"), case.config.loop(), case.config.shapes()
    drawn = SketchMap.draw({name: shapes[name] for name in loop.select(shapes)}, 32, seed=1, sketch=sketch)
    options = {"loop": loop, "sketch": drawn, "steps": steps, "memory": memory, "audit": audit}
    found: list[list[Any]] = []
    for place in (CPU, device):
        run = fast.Featurizer(case.model().to(place), fast.token_cross_entropy, **options)
        found.append([run(moved(case.batch(which), place)) for which in ((1,) if audit == "off" else (1, 2))])
    return max(relative(here.values, there.values) for here, there in zip(*found, strict=True))


def make_looped(core: Callable[[], nn.Module], dtype: torch.dtype) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Looped(core()).to(dtype)


def make_xy(seed: int, dtype: torch.dtype, n: int = 3) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(n, LENGTH, width, generator=random, dtype=torch.float64) for width in (4, 3))
    return {"x": x.to(dtype), "y": y.to(dtype)}


def _looped(core: Callable[[], nn.Module], memory: str, audit: str, device: torch.device) -> float:
    dtype = double_of(device)
    found = []
    for place in (CPU, device):
        model, batch = make_looped(core, dtype).to(place), moved(make_xy(1, dtype), place)
        found.append(room("fast").featurize(model, square_loss, batch, loop=GATED, memory=memory, audit=audit))
    return max(relative(here, there) for here, there in zip(*map(_arrays, found), strict=True))


def _arrays(features: Any) -> list[np.ndarray]:
    return [features.values] if features.outside is None else [features.values, features.outside]


def _dropout(device: torch.device) -> float:
    """Both memory modes, from one seed: what is run again must draw the numbers that it drew."""
    dtype = double_of(device)
    found = []
    for memory in ("hooks", "recompute"):
        model = make_looped(lambda: nn.Sequential(nn.Linear(D, D), nn.Dropout(0.5), nn.Linear(D, D)), dtype).to(device)
        torch.manual_seed(5)
        run = room("fast").Featurizer(model, square_loss, loop=GATED, memory=memory, audit="off")
        found.append(run(moved(make_xy(1, dtype), device)).values)
    return relative(*found)


def _exact(device: torch.device) -> float:
    dtype = double_of(device)
    found = []
    for place in (CPU, device):
        train, query = ([moved(make_xy(seed, dtype), place)] for seed in (1, 2))
        model = make_looped(OwnNorm, dtype).to(place)
        found.append(room("fast").exact_scores(model, square_loss, train, query, loop=GATED).sdi)
    return relative(*found)


def _attribute(device: torch.device) -> float:
    """From checkpoints on disk to scores, with batches of the host that the loss moves to its model."""
    dtype, found = double_of(device), []

    def loss(model: Any, batch: Any) -> Tensor:
        place = model.head.weight.device
        return square_loss(model, {name: batch[name].to(place) for name in ("x", "y")})

    with TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "step-1.pt"
        torch.save(make_looped(OwnNorm, dtype).state_dict(), checkpoint)
        for place in (CPU, device):
            result = attribute(
                make_looped(OwnNorm, dtype).to(place), loss=loss, loop=GATED, checkpoints=[checkpoint], eta=[1.0], m=16,
                train=[make_xy(1, dtype)], query=[make_xy(2, dtype)], store=Path(folder) / place.type,
            )  # fmt: skip
            found.append(np.asarray(result.sdi))
    return relative(*found)
