"""A description of the machine (CPU, cores, memory, versions) for records."""

from __future__ import annotations

import os
import platform

from sdi.backends import room

THREADS = int(os.environ.get("OMP_NUM_THREADS") or 2)  # of this process and of every worker


def describe_machine() -> dict[str, str]:
    import torch  # here: `sdi-bench --help` needs none of it

    return {
        "CPU": _cpu_model(),
        "cores": str(os.cpu_count()),
        "threads used": str(torch.get_num_threads()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "torch": torch.__version__,
        "kernels": room("fast.sketching.compiled").kernels(),
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
