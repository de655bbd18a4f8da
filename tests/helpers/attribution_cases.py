"""A small world to attribute in: a looped model, checkpoints, training and query batches; and tests of these."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import sdi
import sdi.fast
import sdi.reference
from sdi import LoopedConfig, Result
from sdi.fast import LoopedTransformer, token_cross_entropy

CONFIG = LoopedConfig(vocab=5, classes=5, d=8, heads=2, tau=3, length=4)
LOOP = CONFIG.loop()
Batches = list[dict[str, Any]]


def make_model(seed: int = 0, config: LoopedConfig = CONFIG, dtype: torch.dtype = torch.float64) -> LoopedTransformer:
    return LoopedTransformer.init(config, seed=seed, scale=0.4).to(dtype)


def make_batches(n: int, name: str, seed: int, size: int = 3, **more: Any) -> Batches:
    """n examples named name-0, name-1, ... in batches of `size`."""
    rng = np.random.default_rng(seed)
    tokens, targets = (torch.from_numpy(rng.integers(0, 5, (n, 4))) for _ in range(2))
    rows = [slice(k, min(k + size, n)) for k in range(0, n, size)]
    return [
        {"tokens": tokens[r], "targets": targets[r], "id": [f"{name}-{k}" for k in range(n)[r]]}
        | {key: value[r] for key, value in more.items()}
        for r in rows
    ]


TRAIN, QUERY = make_batches(7, "t", seed=1), make_batches(3, "q", seed=2)


def save_checkpoint(path: Path, model: Any, eta: Any = None) -> Path:
    """As safetensors, with a sidecar if there is an eta."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(model.state_dict(), path)
    if eta is not None:
        path.with_suffix(".json").write_text(json.dumps({"eta": eta}))
    return path


def save_torch(path: Path, content: Any) -> Path:
    """As a torch file."""
    torch.save(content, path)
    return path


class World:
    """Two checkpoints with etas 0.5 and 0.25, and a model that has the weights of neither."""

    def __init__(self, folder: Path, config: LoopedConfig = CONFIG) -> None:
        self.folder = folder
        self.points = [make_model(seed, config) for seed in (1, 2)]
        self.paths = [
            save_checkpoint(folder / f"ckpt/step-{k}.safetensors", p, eta)
            for k, p, eta in zip((9, 10), self.points, (0.5, 0.25), strict=True)
        ]
        self.model = make_model(0, config)
        self.loop = config.loop()

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def options(self, **changes: Any) -> dict[str, Any]:
        base = {"loss": token_cross_entropy, "loop": self.loop, "checkpoints": self.folder / "ckpt/*.safetensors"}
        return (
            base
            | {"train": TRAIN, "query": QUERY, "m": 32, "spread": False, "dtype": "float64", "audit": "off"}
            | changes
        )

    def attribute(self, **changes: Any) -> Result:
        return sdi.attribute(self.model, **self.options(**changes))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    tmp_path_factory.getbasetemp()  # before the world makes its own folder the place of all temporary ones
    with make_world(monkeypatch) as made:
        yield made


@pytest.fixture
def filled(world: World) -> World:
    """A world whose store is full: three training shards of at most 3 examples, one query shard, two checkpoints."""
    world.attribute(store=world.store, shard=3)
    return world


def shards(folder: Path) -> list[Path]:
    return sorted(folder.rglob("shard-*.safetensors"))


@contextmanager
def make_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """In memory where there is a place for that, and never flushed: a test's files need not outlive a power cut."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        monkeypatch.setattr(os, "fsync", lambda handle: None)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield World(Path(folder))


@contextmanager
def counting(target: Any, name: str, seen: Callable[..., Any] = lambda *args: args) -> Iterator[list[Any]]:
    """What `seen` makes of the arguments of every call of target.name, which does what it did."""
    calls: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        before = getattr(target, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            calls.append(seen(*args))
            return before(*args, **kwargs)

        patch.setattr(target, name, counted)
        yield calls


@contextmanager
def featurized() -> Iterator[list[tuple[str, ...]]]:
    """The ids of every batch that is featurized."""
    with counting(sdi.fast.Featurizer, "__call__", lambda make, batch, ids=(): tuple(ids)) as calls:
        yield calls


def flat(calls: Iterable[Iterable[str]]) -> list[str]:
    return [i for ids in calls for i in ids]


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but the lock, which holds the id of a process."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != "lock"
    }


def assert_same_result(x: Result, y: Result, rtol: float = 0.0) -> None:
    """The same labels, and the same numbers to rtol of the largest."""
    assert (x.mode, x.labels) == (y.mode, y.labels)
    for name in ("by_checkpoint", "outside", "stderr", "tracin_stderr", "tau"):
        assert_close(x.arrays[name], y.arrays[name], name, rtol)


def assert_close(x: np.ndarray, y: np.ndarray, what: str = "", rtol: float = 1e-12) -> None:
    """Equal to rtol of the largest entry."""
    x, y = np.asarray(x), np.asarray(y)
    assert x.shape == y.shape, f"{what}: shapes {x.shape} and {y.shape}"
    error = np.abs(x - y).max(initial=0)
    assert error <= rtol * np.abs(y).max(initial=0), f"{what}: differ by {error}"


def phi_of(model: LoopedTransformer, batch: dict[str, Any], loop: sdi.Loop = LOOP) -> sdi.Features:
    """Dense step gradients of one batch."""
    return sdi.fast.featurize(model, token_cross_entropy, {k: v for k, v in batch.items() if k != "id"}, loop=loop)


def one_batch(batches: Batches) -> dict[str, Any]:
    return {key: torch.cat([b[key] for b in batches]) for key in batches[0] if key != "id"}


def dense(world: World) -> tuple[list[sdi.Features], list[sdi.Features]]:
    """Dense features of training and query examples at each checkpoint, made without `attribute`."""
    sides = one_batch(TRAIN), one_batch(QUERY)
    train, query = ([phi_of(point, side, world.loop) for point in world.points] for side in sides)
    return train, query


def ragged(n: int, name: str, seed: int, size: int = 3) -> list[dict[str, Any]]:
    """Examples that take 1 to 4 steps, batch by batch with other maxima."""
    return make_batches(n, name, seed, size=size, tau=torch.tensor(([1, 2, 1, 4, 3, 1, 2] * 2)[:n]))


class Shuffled:
    """A loader that gives its examples in another order, and in other batches, each time."""

    def __init__(self, batches: list[dict[str, Any]]) -> None:
        self.whole, self.ids, self.times = one_batch(batches), [i for b in batches for i in b["id"]], 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.times += 1
        order = np.random.default_rng(self.times).permutation(len(self.ids))
        for rows in np.array_split(order, self.times + 1):
            yield {k: v[rows] for k, v in self.whole.items()} | {"id": [self.ids[i] for i in rows]}
