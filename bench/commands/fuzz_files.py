"""fuzz_files: stores and results with bits flipped, cut, swapped, linked; every one is refused, or says the same.

Each trial harms a run's folder in one way and then looks at it as `sdi top` does: the record is read, the store opened,
scored and ranked, the result loaded; at last the store is opened for writing. What stands outside must not change.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sdi.inputs.checkpoints import Checkpoint
from sdi.inputs.settings import Settings
from sdi.result.result import Result, load
from sdi.result.score_store import score
from sdi.result.stream_top import stream_top
from sdi.run.run_record import read_record, save_record
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features
from sdi.store.store import Store

from ..harness.record import Record, Table

OURS = (ValueError, OSError)  # StoreError, SketchMismatch and NonFiniteError are ValueErrors
POINTS = tuple(Checkpoint(Path(f"step-{k}.safetensors"), eta, f"{k}" * 64) for k, eta in ((1, 0.1), (2, 0.05)))
IDS = {"train": tuple(f"t-{k}" for k in range(6)), "query": ("q-0", "q-1")}
CONFIG = {"dtype": "float32"}
OUTSIDE = b"ten years"

Harm = Callable[[Path, np.random.Generator], str]  # of a folder with the runs "a" and "b"; what was done to "a"


@dataclass
class FileCounts:
    """What became of n harmed folders. `different` and `raw` must be 0; `bad` says which they were."""

    refused: int = 0
    identical: int = 0
    different: int = 0
    raw: int = 0
    bad: list[str] = field(default_factory=list)


def fuzz_files(n: int, seed: int, tell: Callable[[str], None] = lambda text: None) -> FileCounts:
    """Harm a run's folder in n ways and look at it each time.

    seed: decides the harms; trial k of a seed is the same whatever n is.
    tell: called with how far it is.
    """
    counts = FileCounts()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="sdi-fuzz-", dir=memory if memory.is_dir() else None) as scratch:
        folder = Path(scratch)
        make_run(folder / "a", seed=0)
        make_run(folder / "b", seed=1)
        (folder / "outside").write_bytes(OUTSIDE)
        whole, wanted = _read_all(folder), _looked_at(folder / "a")
        for k in range(n):
            rng = np.random.default_rng([seed, k])
            said = HARMS[int(rng.integers(len(HARMS)))](folder, rng)
            outcome, why = _outcome(folder, wanted, whole)
            setattr(counts, outcome, getattr(counts, outcome) + 1)
            if outcome in ("different", "raw"):
                counts.bad.append(f"trial {k}: {said}: {why}")
            _write_all(folder, whole)
            tell(f"{k + 1} of {n} folders, {len(counts.bad)} bad")
    return counts


def make_run(folder: Path, seed: int) -> None:
    """A store with two checkpoints, its result and its record, of random numbers instead of gradients."""
    rng = np.random.default_rng(seed)
    sketch = SketchMap.draw({"core.weight": (6, 5), "core.bias": (6,)}, 8, seed)
    store = Store.create(folder, sketch, CONFIG)
    with store.writing():
        for point in POINTS:
            for side, ids in IDS.items():
                for part in (ids[:4], ids[4:]):
                    shape = (len(part), sketch.size) if side == "train" else (len(part), 3, sketch.size)
                    values, tau = rng.normal(size=shape), np.full(len(part), 3)
                    features = Features(values, tau, sketch.blocks, sketch.label, None, part)
                    if part:
                        store.append(point.key, side, features, [f"content of {i}" for i in part])
    result = score(store, POINTS, IDS["train"], IDS["query"], "query", {"settings": {"m": 8}})
    result.save(folder / "result.safetensors")
    save_record(folder, Settings(), POINTS, IDS, folder / "result.safetensors")


def _looked_at(run: Path) -> list[object]:
    """All that can be read of a run, in values that can be compared."""
    record = read_record(run)
    store = record.open_store()
    scored = score(store, record.checkpoints, record.ids["train"], record.ids["query"], record.mode, {})
    tops = [
        stream_top(store, record.checkpoints, record.ids["query"], 9, by=by, train=record.ids["train"])
        for by in ("signed", "late")
    ]
    loaded = load(record.find_result())
    return [*_values(loaded), loaded.info, *_values(scored), tops, str(loaded.top(3, query="q-1"))]


def _values(result: Result) -> list[object]:
    return [result.mode, dict(result.labels), *((n, a.dtype.str, a.tobytes()) for n, a in result.arrays.items())]


def _outcome(folder: Path, wanted: Sequence[object], whole: Mapping[Path, bytes]) -> tuple[str, str]:
    refused = ""
    for look in (_looked_at, _opened_for_writing):
        try:
            found = look(folder / "a")
        except OURS as error:
            refused = str(error)
        except Exception as error:  # whatever it is, it is not ours
            return "raw", f"{type(error).__name__}: {error}"
        else:
            if found and found != wanted:
                return "different", "other scores"
    for path, content in whole.items():
        if not path.is_relative_to(folder / "a") and (not path.is_file() or path.read_bytes() != content):
            return "different", f"{path}, outside the folder, changed"
    return ("refused", refused) if refused else ("identical", "")


def _opened_for_writing(run: Path) -> list[object]:
    sketch = SketchMap.draw({"core.weight": (6, 5), "core.bias": (6,)}, 8, 0)
    with Store.create(run, sketch, CONFIG).writing():
        return []


def _files(run: Path) -> list[Path]:
    return sorted(p for p in run.rglob("*") if p.is_file())


def _one(run: Path, rng: np.random.Generator, empty: bool = True) -> Path:
    """One of a run's files. empty: it may be one that holds nothing, as a lock that nobody has."""
    files = [path for path in _files(run) if empty or path.stat().st_size]
    return files[int(rng.integers(len(files)))]


def flip(folder: Path, rng: np.random.Generator) -> str:
    path = _one(folder / "a", rng, empty=False)
    content = bytearray(path.read_bytes())
    for bit in rng.integers(8 * len(content), size=int(rng.integers(1, 4))):
        content[bit // 8] ^= 1 << int(bit % 8)
    path.write_bytes(content)
    return f"flipped bits of {path}"


def cut(folder: Path, rng: np.random.Generator) -> str:
    path = _one(folder / "a", rng, empty=False)
    content = path.read_bytes()
    path.write_bytes(content[: int(rng.integers(len(content)))])
    return f"truncated {path}"


def lengthen(folder: Path, rng: np.random.Generator) -> str:
    path = _one(folder / "a", rng)
    path.write_bytes(path.read_bytes() + rng.bytes(int(rng.integers(1, 40))))
    return f"lengthened {path}"


def overwrite(folder: Path, rng: np.random.Generator) -> str:
    path = _one(folder / "a", rng, empty=False)
    content = bytearray(path.read_bytes())
    start = int(rng.integers(len(content)))
    part = rng.bytes(16) if rng.integers(2) else rng.choice(list(b'{}[]",:0129.e-+ntf'), 4).astype(np.uint8).tobytes()
    content[start : start + len(part)] = part
    path.write_bytes(content)
    return f"overwrote {path} at {start}"


def remove(folder: Path, rng: np.random.Generator) -> str:
    path = _one(folder / "a", rng)
    path.unlink()
    if rng.integers(2):
        path.mkdir()
    return f"removed {path}"


def swap(folder: Path, rng: np.random.Generator) -> str:
    one, other = _one(folder / "a", rng), _one(folder / ("a", "b")[int(rng.integers(2))], rng)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    if other.is_relative_to(folder / "a"):
        other.write_bytes(first)
    return f"swapped {one} and {other}"


def transplant(folder: Path, rng: np.random.Generator) -> str:
    """A shard with its .json from another store, checkpoint, side or number; or another file of the other run."""
    target = _one(folder / "a", rng)
    if target.parent == folder / "a":
        shutil.copyfile(folder / "b" / target.name, target)
        return f"put the other run's in place of {target}"
    pool = [p for run in ("a", "b") for p in _files(folder / run) if p.name.startswith("shard-")]
    source = pool[int(rng.integers(len(pool)))]
    target = target if rng.integers(2) else target.with_name("shard-00007.json")
    for end in (".json", ".safetensors"):
        if source.with_suffix(end) != target.with_suffix(end):
            shutil.copyfile(source.with_suffix(end), target.with_suffix(end))
    return f"put {source} in place of {target}"


def link(folder: Path, rng: np.random.Generator) -> str:
    """A file, a leftover or a folder that is a symbolic or a hard link to something else."""
    target = _one(folder / "a", rng)
    kind = int(rng.integers(4))
    if kind == 0:
        target = target.with_name(target.name + ".part") if rng.integers(2) else folder / "a/lock"
    if kind == 1 and target.parent != folder / "a":
        moved = folder / "b" / target.parent.relative_to(folder / "a")
        shutil.rmtree(target.parent)
        target.parent.symlink_to(moved)
        return f"linked {target.parent} to {moved}"
    source = folder / "outside" if rng.integers(2) else _one(folder / "b", rng)
    target.unlink(missing_ok=True)
    (os.symlink if rng.integers(2) else os.link)(source, target)
    return f"linked {target} to {source}"


HARMS: tuple[Harm, ...] = (flip, flip, flip, cut, lengthen, overwrite, remove, swap, transplant, link, link)


def _read_all(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in _files(folder)}


def _write_all(folder: Path, whole: dict[Path, bytes]) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path, content in whole.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def measure_files(n: int, seed: int, tell: Callable[[str], None]) -> Record:
    """The counts of `fuzz_files` as a record, with the bars that it must meet."""
    found = fuzz_files(n, seed, tell)
    counts = {name: getattr(found, name) for name in ("refused", "identical", "different", "raw")}
    table = Table("Harmed files", tuple(counts), [[f"{count:,}" for count in counts.values()]])
    bad = Table("What went wrong", ("trial",), [[line] for line in found.bad[:50]])
    figures = {name: [float(count)] for name, count in counts.items()}
    return Record("fuzz files", {"trials": n, "seed": seed}, figures, [table, *([bad] if found.bad else [])])
