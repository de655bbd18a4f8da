"""The authors' release: installed into a folder of its own on first use, and driven in a worker process.

It imports as `sdi`, as we do, so it cannot live in our environment. `pip install --target` puts it and its light
dependencies into a cache folder, without torch, which it shares with us; the worker finds it there first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.torch import save_file

from .cases import Case
from .machine import THREADS
from .remote import Remote

RELEASE = "step-decomposed-influence==0.1.1"
PACKAGES = (RELEASE, "opacus==1.6.0", "opt-einsum==3.4.0", "tqdm")
WORKER = Path(__file__).with_name("authors_worker.py")


def authors_home() -> Path:
    """SDI_BENCH_CACHE, or the user's cache folder."""
    cache = os.environ.get("SDI_BENCH_CACHE") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "sdi-bench" / RELEASE.replace("==", "-")


def install_authors() -> Path:
    """The folder that holds the release; there after the first call."""
    home = authors_home().absolute()
    if home.is_dir():
        return home
    part = home.with_name(home.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*command, "--target", str(part), *PACKAGES], capture_output=True, text=True)
    if done.returncode:
        raise OSError(
            f"pip could not install {RELEASE} into {home}; pass --no-authors to measure without it\n"
            + done.stderr.strip()
        )
    part.replace(home)
    return home


@contextmanager
def authors_worker(case: Case) -> Iterator[Remote]:
    """A worker with the release, our weights and our batch, ready to be asked to run."""
    home = install_authors()
    env = {**os.environ, "PYTHONPATH": str(home), "PYTHONSAFEPATH": "1"}  # nor our files beside the script
    with TemporaryDirectory() as folder, Remote([sys.executable, str(WORKER)], env) as remote:
        file = Path(folder) / "case.safetensors"
        save_file({**case.model().state_dict(), **case.batch()}, file)
        remote.ask("open", case=case.to_dict(), file=str(file), home=str(home), threads=THREADS)
        file.unlink()
        yield remote
