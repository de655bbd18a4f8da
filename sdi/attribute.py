"""attribute: from a model, checkpoints and data to a Result, in one call."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sdi
from sdi.backends import backend as backend_named
from sdi.backends import room
from sdi.batches import read_batches
from sdi.checkpoints import Checkpoint, find_checkpoints
from sdi.fill import Job, Progress, fill
from sdi.labelled import Labelled
from sdi.loop import Loop
from sdi.result import MODES, Result
from sdi.scoring import score
from sdi.sketch_map import SketchMap
from sdi.store import DTYPES, Store

BACKENDS = ("fast", "exact", "reference")


def attribute(
    model: Any,
    *,
    loss: Callable[[Any, Any], Any],
    loop: Loop,
    checkpoints: Sequence[str | Path] | str | Path,
    train: Iterable[Any],
    query: Iterable[Any],
    m: int | None = 2048,
    seed: int = 0,
    family: str = "table",
    eta: Sequence[float] | None = None,
    mode: str = "query",
    backend: str = "fast",
    store: str | Path | None = None,
    dtype: str = "float32",
    repeats: int = 1,
    shard: int = 256,
    audit: str = "first",
    memory: str = "auto",
    budget: int | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> Result:
    """Influence of every training example on every loop step of every query, summed over checkpoints.

    train, query: iterables of batches, iterated once per checkpoint. An example's id is its batch's "id", or a digest.
    mode: "query" (steps of the query), "train" (steps of the training example), "matrix" (both), "tracin" (none).
    backend: "fast"; "exact", without sketches or error; "reference", dense NumPy for `sdi.reference` models.
    m: sketch width; None keeps every gradient whole. repeats: average over so many sketches and measure the error.
    store: a folder to keep features in. A run that was stopped goes on where it was; a new query set reuses the rest.
    """
    _check(mode, backend, dtype, repeats, shard)
    points = find_checkpoints(checkpoints, eta)
    settings = {"m": m, "seed": seed, "family": family, "mode": mode, "backend": backend, "repeats": repeats}
    info = {"sdi": sdi.__version__, "settings": settings, "notes": _notes(points)}
    if backend == "exact":
        return _exact(model, loss, loop, points, train, query, mode, audit, memory, info)
    verbs = backend_named(backend)
    job = Job(verbs, model, loss, loop, {"audit": audit, "memory": memory, "budget": budget}, shard, progress)
    with tempfile.TemporaryDirectory(prefix="sdi-") as scratch:
        folder = Path(scratch) if store is None else Path(store)
        results = []
        for r in range(repeats):
            shapes = verbs.body_shapes(model, loop)
            sketch = SketchMap.keep(shapes) if m is None else SketchMap.draw(shapes, m, seed + r, family)
            place = folder if repeats == 1 else folder / f"seed-{seed + r}"
            pool = Store.create(place, sketch, store_config(model, loss, loop, backend, mode, dtype))
            ids = fill(pool, job, points, {"train": train, "query": query}, steps_of(mode))
            results.append(score(pool, points, ids["train"], ids["query"], mode, info))
    return results[0] if repeats == 1 else average(results)


def steps_of(mode: str) -> dict[str, bool]:
    """Which side keeps its steps."""
    return {"train": mode in ("train", "matrix"), "query": mode in ("query", "matrix")}


def store_config(model: Any, loss: Any, loop: Loop, backend: str, mode: str, dtype: str) -> dict[str, Any]:
    """What features depend on besides the sketch: a store refuses to be used with another."""
    names = [entry if isinstance(entry, str) else type(entry).__name__ for entry in (*loop.body, loop.step, loop.end)]
    return {
        "model": type(model).__qualname__,
        "loss": _code(loss),
        "loop": {"body": names[:-2], "step": names[-2], "end": names[-1]},
        "backend": backend,
        "steps": steps_of(mode),
        "dtype": dtype,
    }


def average(results: Sequence[Result]) -> Result:
    """The mean over independent sketches, and the standard error that their spread shows."""
    first, root = results[0], np.sqrt(len(results))

    def mean(name: str) -> Labelled:
        arrays = [getattr(r, name) for r in results]
        return Labelled(np.mean([a.values for a in arrays], axis=0), arrays[0].dims, arrays[0].coords)

    def spread(name: str) -> Labelled:
        arrays = [getattr(r, name) for r in results]
        return Labelled(np.std([a.values for a in arrays], axis=0, ddof=1) / root, arrays[0].dims, arrays[0].coords)

    return Result(
        mode=first.mode,
        by_checkpoint=mean("by_checkpoint"),
        outside=mean("outside"),
        stderr=spread("sdi"),
        tracin_stderr=spread("tracin"),
        tau=first.tau,
        info=first.info,
    )


def _exact(
    model: Any,
    loss: Any,
    loop: Loop,
    points: Sequence[Checkpoint],
    train: Iterable[Any],
    query: Iterable[Any],
    mode: str,
    audit: str,
    memory: str,
    info: dict[str, Any],
) -> Result:
    """Exact scores hold training gradients in memory and need no store."""
    if mode not in ("query", "tracin"):
        raise ValueError(f"mode must be 'query' or 'tracin' with backend='exact', got {mode!r}; use m=None instead")
    fast = room("fast")
    parts, outside = [], []
    ids: dict[str, tuple[str, ...]] = {}
    with fast.weights_kept(model):
        for point in points:
            if isinstance(point.eta, dict):
                raise ValueError(f"eta of {point.path} must be one number with backend='exact'; use m=None instead")
            fast.with_weights(model, point.weights())
            sides = {}
            for side, loader in (("train", train), ("query", query)):
                read = list(read_batches(loader, side))
                names = tuple(i for part in read for i in part.ids)
                if names != ids.setdefault(side, names):
                    raise ValueError(f"{side} must keep its order at every checkpoint with backend='exact'")
                sides[side] = [part.batch for part in read]
            scores = fast.exact_scores(
                model, loss, sides["train"], sides["query"], loop=loop, audit=audit, memory=memory
            )
            parts.append(point.eta * (scores.sdi if mode == "query" else scores.tracin))
            outside.append(point.eta * scores.outside * (mode == "query"))
    coords = {"checkpoint": tuple(p.key for p in points), **ids, "step": tuple(range(1, parts[0].shape[-1] + 1))}
    dims = ("train", "query", *MODES[mode])
    zero = np.zeros(parts[0].shape[:2])
    return Result(
        mode=mode,
        by_checkpoint=Labelled(np.stack(parts), ("checkpoint", *dims), coords),
        outside=Labelled(np.sum(outside, axis=0), dims[:2], coords),
        stderr=Labelled(np.zeros(parts[0].shape), dims, coords),
        tracin_stderr=Labelled(zero, dims[:2], coords),
        tau=Labelled(scores.tau, ("query",), coords),
        info=info,
    )


def _notes(points: Sequence[Checkpoint]) -> list[str]:
    zero = [p.path.name for p in points if (max(p.eta.values()) if isinstance(p.eta, dict) else p.eta) == 0]
    return [f"checkpoint {name} has eta 0 and adds nothing" for name in zero]


def _code(function: Any) -> str:
    """A name and a digest of what a loss does, so that a store notices when it changes."""
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if code is None:
        return str(name)
    return f"{name} {hashlib.sha256(_code_bytes(code)).hexdigest()[:12]}"


def _code_bytes(code: Any) -> bytes:
    parts = [code.co_code, repr(code.co_names).encode()]
    for c in code.co_consts:
        # A set of strings is printed in another order in every process.
        plain = sorted(map(repr, c)) if isinstance(c, frozenset) else c
        parts.append(_code_bytes(c) if hasattr(c, "co_code") else repr(plain).encode())
    return b"|".join(parts)


def _check(mode: str, backend: str, dtype: str, repeats: int, shard: int) -> None:
    for name, value, choices in (
        ("mode", mode, tuple(MODES)),
        ("backend", backend, BACKENDS),
        ("dtype", dtype, DTYPES),
    ):
        if value not in choices:
            raise ValueError(f"{name} must be one of {choices}, got {value!r}")
    for name, number in (("repeats", repeats), ("shard", shard)):
        if number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
