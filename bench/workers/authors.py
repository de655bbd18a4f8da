"""The authors' release in a worker process. It imports as `sdi`, as we do, so it cannot live in our environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.torch import save_file

from ..harness.machine import THREADS
from ..work.cases import Case
from .environment import AUTHORS
from .remote import Remote

WORKER = Path(__file__).with_name("authors_worker.py")


@contextmanager
def authors_worker(case: Case) -> Iterator[Remote]:
    """A worker with the release, our weights and our batch, ready to be asked to run."""
    home = AUTHORS.install()
    env = {**os.environ, "PYTHONPATH": str(home), "PYTHONSAFEPATH": "1"}  # nor our files beside the script
    with TemporaryDirectory() as folder, Remote([sys.executable, str(WORKER)], env) as remote:
        file = Path(folder) / "case.safetensors"
        save_file({**case.model().state_dict(), **case.batch()}, file)
        remote.ask("open", case=case.to_dict(), file=str(file), home=str(home), threads=THREADS)
        file.unlink()
        yield remote
