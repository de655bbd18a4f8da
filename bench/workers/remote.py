"""A worker process that is kept alive and asked, one JSON line at a time. It works only while it is asked."""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any


class WorkerFailed(RuntimeError):
    """The worker answered with an error, in the first line, or gave no answer."""


class WorkerEnded(WorkerFailed):
    """The worker ended without an answer; the message holds the end of its stderr."""


class Remote:
    """Each question is {"do": ..., ...}; the answer is {"ok": true, ...} or {"ok": false, "error": ...}."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str] | None = None, patience: float | None = None
    ) -> None:
        """patience: seconds to wait for an answer; a worker that takes longer is ended."""
        self._patience = patience
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the worker)
        self._process = subprocess.Popen(
            list(command), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # what it wrote before it ended says more
            self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
            self._process.stdin.flush()
        if self._patience is not None and not select.select([self._process.stdout], [], [], self._patience)[0]:
            self._process.kill()
            raise WorkerFailed(f"{do!r} gave no answer in {self._patience:g} seconds")
        line = self._process.stdout.readline()
        if not line:
            raise WorkerEnded(self._failure(do, "the worker ended"))
        answer: dict[str, Any] = json.loads(line)
        if not answer.pop("ok"):
            raise WorkerFailed(self._failure(do, answer["error"]))
        return answer

    def _failure(self, do: str, error: str) -> str:
        """The error, with what the worker has written to stderr."""
        self._errors.seek(0)
        return f"{do!r} failed in the worker: {error}\n{self._errors.read()[-2000:]}".rstrip()

    def __enter__(self) -> Remote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()
        self._errors.close()
