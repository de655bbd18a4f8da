"""Memory that this process, or another, holds, as the system sees it. Linux (/proc), and glibc for giving back."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress
from pathlib import Path


def status(pid: int | str, name: str) -> int:
    """Bytes that the system says of a process: `VmRSS` is what it holds, `VmHWM` the most it ever held."""
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


def start_peak() -> int | None:
    """Put the peak mark back to what is held now, and return that; None where the system does not say."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        return int(torch.cuda.memory_allocated())
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    with suppress(OSError):
        return status("self", "VmRSS")
    return None


def read_peak() -> int | None:
    """The most that was held since `start_peak`."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    with suppress(OSError):
        return status("self", "VmHWM")
    return None
