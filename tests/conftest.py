"""Settings of every test run: one thread, so that parallel runs do not wait, neither for each other nor for the disk
(no test pulls the plug; those of the order of writes and of kills ask for more): temporary files are in memory where
there is room for them, and nothing is flushed. The asserts of helpers are explained.

Some virtual machines say that they have AMX and end a program that uses it (an illegal instruction in a bfloat16
product of 64 x 64). So oneDNN is asked to do without, here and in the tests' own processes.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
MEMORY, ENOUGH = Path("/dev/shm"), 2**32  # compiled kernels are loaded from there, too
_in_memory = "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH
if _in_memory and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
    os.environ["TMPDIR"], tempfile.tempdir = str(MEMORY), None
pytest.register_assert_rewrite(*(path.stem for path in (Path(__file__).parent / "helpers").glob("*.py")))


@pytest.fixture(autouse=True)
def _one_thread():
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: None)
        yield
