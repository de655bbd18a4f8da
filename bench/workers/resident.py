"""Memory of a process as the system sees it. Linux (/proc), and glibc for giving back.

`authors_worker` has its own giving back: in its process `sdi` is the authors' package, and this file is out of reach.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress


def status(pid: int, name: str) -> int:
    """Bytes that the system says of a process."""
    with open(f"/proc/{pid}/status") as lines:
        for line in lines:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/status has no {name}; peak memory can be measured on Linux only")


def give_back() -> None:
    """Give back to the system what is free in this process, so that it is not counted as held."""
    gc.collect()
    with suppress(AttributeError, OSError):  # not glibc: nothing to trim
        ctypes.CDLL(None).malloc_trim(0)
