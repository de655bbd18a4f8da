"""Other people's packages: each installed into a folder of its own on first use, and driven in a worker process.

`pip install --target` puts a package and what it needs into a cache folder, without torch, which it shares with us.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    """Exact versions, installed without looking for more."""

    release: str
    more: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        """SDI_BENCH_CACHE, or the user's cache folder."""
        cache = os.environ.get("SDI_BENCH_CACHE") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        return Path(cache).expanduser().absolute() / "sdi-bench" / self.release.replace("==", "-")

    def install(self) -> Path:
        """The folder that holds the release; there after the first call."""
        if self.home.is_dir():
            return self.home
        part = self.home.with_name(self.home.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(
            [*command, "--target", str(part), self.release, *self.more], capture_output=True, text=True
        )
        if done.returncode:
            raise OSError(f"pip could not install {self.release} into {self.home}\n" + done.stderr.strip())
        part.replace(self.home)
        return self.home


AUTHORS = Environment("step-decomposed-influence==0.1.1", ("opacus==1.6.0", "opt-einsum==3.4.0", "tqdm==4.70.1"))
DATTRI = Environment("dattri==0.3.0", ("tqdm==4.70.1", "pyyaml==6.0.3"))
