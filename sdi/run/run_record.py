"""RunRecord: what a run used, in `run.json` in its folder, so that looking at the folder runs no code.

`run.toml` says how to do the run again, which takes its script; this says what came of it: checkpoints with their eta,
the ids of the examples of each side, and which store and result hold their features and scores.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdi.errors import StoreError
from sdi.files import sha256, write_whole
from sdi.inputs.checkpoints import Checkpoint, check_eta
from sdi.inputs.settings import Settings
from sdi.seal import is_whole, sealed_json
from sdi.store.remote import remote_of
from sdi.store.store import Store

RECORD_FILE = "run.json"
VERSION = 1
HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class RunRecord:
    """The last run that ended in a folder."""

    folder: Path
    backend: str
    repeats: int
    mode: str
    checkpoints: tuple[Checkpoint, ...]
    ids: Mapping[str, tuple[str, ...]]  # of "train" and "query"
    result: Path
    result_sha256: str | None  # None: the run only made features
    manifest: str | None  # the sha256 of the store's manifest, where the folder is one store

    def open_store(self) -> Store:
        """The store that the run filled; refused if another one stands there now."""
        manifest = self.folder / "manifest.json"
        if not manifest.is_file() or sha256(manifest) != self.manifest:
            raise StoreError(
                f"{self.folder} does not hold the store that its {RECORD_FILE} names; run its config again"
            )
        return Store(self.folder)

    def find_result(self) -> Path:
        """The file of the result that the run saved; refused if there is none, or another."""
        if self.result_sha256 is None:
            raise StoreError(
                f"the last run in {self.folder} saved no result; name the file that `Result.save` wrote, or make one "
                "with `sdi score CONFIG`"
            )
        remote = remote_of(self.folder)
        if remote is not None and self.result.parent == self.folder:
            return remote.fetch(self.result.name, self.result_sha256)
        if not self.result.is_file() or sha256(self.result) != self.result_sha256:
            raise StoreError(
                f"{self.result} is not the result that {self.folder / RECORD_FILE} names; name the file itself to look "
                "at it, or run the config again"
            )
        return self.result


def save_record(
    folder: Path,
    settings: Settings,
    points: Sequence[Checkpoint],
    ids: Mapping[str, Sequence[str]],
    result: Path,
    scored: bool = True,
) -> None:
    """Write run.json to a run's folder. scored: whether the run saved the file `result`."""
    manifest = folder / "manifest.json"
    content = {
        "version": VERSION,
        "backend": settings.backend,
        "repeats": settings.repeats,
        "mode": settings.mode,
        "checkpoints": [{"file": p.path.name, "sha256": p.fingerprint, "eta": p.eta} for p in points],
        "result": Path(os.path.relpath(result, folder)).as_posix(),
        "result_sha256": sha256(result) if scored else None,
        "manifest": sha256(manifest) if manifest.is_file() else None,
        **{side: list(names) for side, names in ids.items()},
    }
    write_whole(folder / RECORD_FILE, sealed_json(content))


def read_record(folder: Path) -> RunRecord:
    """What the last run in a folder used, from the folder alone."""
    path = folder / RECORD_FILE
    if not path.is_file():
        raise StoreError(
            f"{folder} has no {RECORD_FILE}: no run has ended there, or an older sdi wrote it; give the run's config, "
            f"such as {folder / 'run.toml'}, whose script is then run for the ids of its examples, or a saved result"
        )
    altered = StoreError(f"{path} was truncated or altered; run the config again, which writes it anew")
    try:
        text = path.read_bytes()
        content = json.loads(text)
        whole = is_whole(text, content["sha256"])
        version = content["version"]
        if whole and version == VERSION:
            return _made(folder, content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise altered from None
    if not whole:
        raise altered
    raise StoreError(f"{path} has version {version!r}, this sdi reads version {VERSION}")


def _made(folder: Path, content: dict[str, Any]) -> RunRecord:
    points = []
    for entry in content["checkpoints"]:
        if not HEX.fullmatch(entry["sha256"]):
            raise ValueError("a fingerprint is 64 digits")
        points.append(Checkpoint(Path(entry["file"]), check_eta(entry["eta"], Path(entry["file"])), entry["sha256"]))
    ids = {side: tuple(map(str, content[side])) for side in ("train", "query")}
    facts = str(content["backend"]), int(content["repeats"]), str(content["mode"])
    return RunRecord(
        folder, *facts, tuple(points), ids, folder / content["result"], content["result_sha256"], content["manifest"]
    )
