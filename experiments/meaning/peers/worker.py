"""One way of one library, alone in a process: python -m sdi.experiments.meaning.peers.worker FOLDER NAME FILE BYTES."""

from __future__ import annotations

import resource
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

from .run_on_disk import RunOnDisk


def main(folder: Path, name: str, file: Path) -> None:
    """Write the scores (train, query) of the run in FOLDER to FILE, and print the CPU seconds that they took."""
    torch.set_num_threads(1)
    library = import_module(f".by_{name.split()[0]}", __package__)
    run = RunOnDisk.load(folder)
    began = time.process_time()
    found = library.scores(name, run).detach().double().numpy()
    seconds = time.process_time() - began
    wanted = (len(run.train[0]), len(run.queries))
    if found.shape != wanted or not np.isfinite(found).all():
        raise ValueError(
            f"scores must be {wanted} finite numbers, got {found.shape}, {np.isfinite(found).sum()} finite"
        )
    if not found.any():
        raise ValueError("all scores are 0")
    with file.open("wb") as out:
        np.save(out, found, allow_pickle=False)
    print(f"seconds {seconds}")


if __name__ == "__main__":
    most = int(sys.argv[4])  # bytes of address space: a way that takes more fails by itself, and nothing else does
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
