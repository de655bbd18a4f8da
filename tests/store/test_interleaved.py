"""Whatever another process does to the same store between any two lines of ours, both end, and the files are all there.

Several processes begin a store at the same instant on a cluster, so what one has looked up may be wrong a line later.
Here one is stopped before every line of the store's code in turn, and the other does its work there, or a part of it.
"""

from __future__ import annotations

import random
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import sdi.files
import sdi.store.lock
from sdi import Features, SketchMap, Store, StoreError
from sdi.store.lock import LOCK, locked
from sdi.store.share import Share

SKETCH = SketchMap.draw({"w": (3, 3)}, 4)
CODE = str(Path(sdi.store.lock.__file__).parent)
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX locks")
Body = Callable[[Path], None]
Line = tuple[str, int]
ALONE = re.compile(r"is being written by (process \d+|another process);")  # not: by processes that fill it in parts


def fills(k: int) -> Body:
    """One of two parts, which writes a shard."""

    def body(path: Path) -> None:
        store = Store.create(path, SKETCH, {"dtype": "float64"})
        with store.writing(Share(k, 2)):
            store.rows("c", "train")
            values = np.full((1, SKETCH.size), float(k))
            features = Features(values, np.ones(1, int), SKETCH.blocks, SKETCH.label, ids=(f"of-{k}",))
            store.append("c", "train", features, [str(k)], number=k)

    return body


def leaves(k: int) -> Body:
    """One of two parts, which finds nothing to write."""

    def body(path: Path) -> None:
        with Store.create(path, SKETCH, {"dtype": "float64"}).writing(Share(k, 2)):
            pass

    return body


class Worker(threading.Thread):
    """Runs a body up to a line of the store's code, waits there to be told to go on, and keeps the error that ends it.

    Like a process of its own: locks are of open files. `stop`: None stops nowhere.
    """

    def __init__(self, body: Body, path: Path, stop: Line | None = None) -> None:
        super().__init__(daemon=True)
        self.body, self.path, self.stop = body, path, stop
        self.seen: dict[Line, None] = {}
        self.error: Exception | None = None
        self.there, self.told = threading.Event(), threading.Event()

    def run(self) -> None:
        sys.settrace(self.trace)
        try:
            self.body(self.path)
        except Exception as error:
            self.error = error
        finally:
            sys.settrace(None)
            self.there.set()

    def trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(CODE) and frame.f_code.co_filename != sdi.files.__file__:
            return None
        line = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and line not in self.seen:
            self.seen[line] = None
            if line == self.stop:
                self.there.set()
                self.told.wait()
        return self.trace

    def begin(self) -> None:
        self.start()
        self.there.wait()

    def end(self) -> None:
        self.told.set()
        self.join()


def lines_of(body: Body, path: Path) -> list[Line]:
    """The lines of the store's code that a body runs, each once."""
    worker = Worker(body, path)
    worker.begin()
    assert worker.error is None
    return list(worker.seen)


def overlapped(ours: Body, theirs: Body, path: Path, stops: tuple[Line, Line | None]) -> None:
    """Ours up to a line, theirs up to one (None: to its end), then ours to its end, then theirs.

    One that was refused because the other was alone for a moment, tidying up, would have waited: it begins again.
    """
    first, second = Worker(ours, path, stops[0]), Worker(theirs, path, stops[1])
    first.begin()
    second.begin()
    first.end()
    second.end()
    for worker in (first, second):
        if isinstance(worker.error, StoreError) and ALONE.search(str(worker.error)):
            worker.error = None
            worker.body(path)
        assert worker.error is None, (stops, worker.error)


@pytest.fixture
def locks_of_two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for one that stands still; and a thread that stands still in `_changing` does not stop the other.

    Two processes have no `_changing` in common: it keeps forks of one process apart.
    """
    monkeypatch.setattr(sdi.store.lock, "PATIENCE", 0.0)
    monkeypatch.setattr(sdi.store.lock, "_changing", nullcontext())


@pytest.mark.usefixtures("locks_of_two_processes")
@pytest.mark.parametrize(
    ("ours", "theirs", "shards"),
    [(fills(0), fills(1), 2), (fills(0), leaves(1), 1), (leaves(0), fills(1), 1), (leaves(0), leaves(1), 0)],
    ids=["both write", "theirs writes nothing", "ours writes nothing", "none writes"],
)
def test_another_part_may_work_between_any_two_lines(tmp_path: Path, ours: Body, theirs: Body, shards: int) -> None:
    """To its end before every line of ours, and up to a line of its own, drawn at random."""
    other = [None, *lines_of(theirs, tmp_path / "theirs")]
    stops = lines_of(ours, tmp_path / "ours")
    assert len(stops) > 60
    assert len(other) > 60
    draw = random.Random(0)
    for number, pair in enumerate([*((x, None) for x in stops), *((x, draw.choice(other)) for x in stops[::2])]):
        path = tmp_path / str(number) / "store"
        overlapped(ours, theirs, path, pair)
        if shards == 0:
            assert not list(path.glob("*")), pair
        else:
            assert len(Store(path).rows("c", "train")) == shards, pair
            assert len(list(path.glob("c/train/*"))) == 2 * shards, pair


def test_a_part_waits_for_one_that_tidies_up(tmp_path: Path) -> None:
    ready, tidied = threading.Event(), []

    def tidy() -> None:
        with locked(tmp_path / LOCK):
            ready.set()
            time.sleep(0.1)
            tidied.append(True)

    thread = threading.Thread(target=tidy)
    thread.start()
    ready.wait()
    fills(0)(tmp_path)
    assert tidied
    thread.join()
