"""Ledger: what a long command has measured so far, kept beside its --json file, so that a stopped run can go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sdi.files import write_whole

from .interleave import Progress


class Ledger:
    """Answers by key, in FILE.so-far until the command has ended; without a file, in memory only."""

    def __init__(self, file: Path | None = None) -> None:
        self.path = None if file is None else file.parent / f"{file.name}.so-far"
        self._work: str | None = None
        self._answers: dict[str, Any] = {}

    def open(self, work: dict[str, Any]) -> None:
        """Read the answers of a stopped run; refused if they are of other work."""
        self._work = json.dumps(work, sort_keys=True)
        if self.path is None or not self.path.exists():
            return
        content = json.loads(self.path.read_text())
        if content["work"] != self._work:
            raise ValueError(f"{self.path} holds a run with other settings: delete it, or give another --json")
        self._answers = content["answers"]

    def once(self, key: str, measure: Callable[[], Any], progress: Progress = lambda _: None) -> Any:
        """The answer kept under a key; measured and kept if there is none yet. It must be a JSON value."""
        if self._work is None:
            raise RuntimeError("a Ledger must be opened before it is asked")
        if key in self._answers:
            progress(f"{key}: measured before")
            return self._answers[key]
        progress(key)
        self._answers[key] = measure()
        if self.path is not None:
            write_whole(self.path, json.dumps({"work": self._work, "answers": self._answers}).encode())
        return self._answers[key]

    @property
    def after_a_stop(self) -> str:
        if self.path is None:
            return "nothing was kept: with --json FILE, the same command would go on where it was"
        return "the same command with the same --json goes on where it was"

    def close(self) -> None:
        """Delete the file, once the command's record is saved."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
