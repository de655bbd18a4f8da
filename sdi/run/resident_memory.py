"""Resident memory of a process now and at its peak. Needs Linux (/proc); `give_back` needs glibc."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress
from pathlib import Path


def status(pid: int | str, name: str) -> int:
    """A line of /proc/PID/status in bytes. name: "VmRSS", resident memory, or "VmHWM", its peak."""
    with open(f"/proc/{pid}/status") as lines:
        for line in lines:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/status has no {name}; peak memory can be measured on Linux only")


def give_back() -> None:
    """Collect garbage and return free memory to the system (malloc_trim), so that it does not count as resident."""
    gc.collect()
    with suppress(AttributeError, OSError):  # not glibc: nothing to trim
        ctypes.CDLL(None).malloc_trim(0)


def start_peak() -> int | None:
    """Reset the peak of memory and return the memory held now, in bytes; None where the system does not tell.

    With CUDA, the device's memory is measured; else the resident memory of this process.
    """
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
    """The peak of memory since `start_peak`, in bytes; None where the system does not tell."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    with suppress(OSError):
        return status("self", "VmHWM")
    return None
