"""peer_scores: scores of a run by other libraries, as .npy files that `sdi.judge` takes by name.

FOLDER/run.json run.safetensors   what they are told
FOLDER/NAME.npy                   scores (train, query) in the order of `run.ids`
FOLDER/NAME.json                  CPU seconds, or the error that stopped it
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sdi.backends import room
from sdi.files import write_whole
from sdi.retraining.training_run import TrainingRun

from ...base import make_folder, write_json
from ..settings import Settings
from .run_on_disk import on_disk

ENVIRONMENTS = room("bench.workers.environment")
DATTRI = ENVIRONMENTS.DATTRI
BERGSON = ENVIRONMENTS.Environment(
    "bergson==2.5.1",
    (
        "accelerate==1.15.0", "datasets==5.2.0", "dill==0.4.1", "docstring-parser==0.18.0", "graphviz==0.21",
        "ml-dtypes==0.6.0", "multiprocess==0.70.19", "natsort==8.4.0", "optree==0.20.0", "peft==0.21.2", "petname==2.9",
        "pyarrow==26.0.1", "regex==2026.11.9", "simple-parsing==0.1.9", "torchopt==0.7.3", "transformers==5.23.0",
        "xxhash==4.1.0",
    ),
)  # fmt: skip
PEERS: dict[str, Any] = {  # environments that they run in
    **dict.fromkeys(
        (
            "dattri TracIn", "dattri TracIn, normalised", "dattri TRAK", "dattri influence, CG",
            "dattri influence, Arnoldi", "dattri influence, DataInf", "dattri influence, EK-FAC",
        ),
        DATTRI,
    ),
    **dict.fromkeys(
        (
            "bergson gradients", "bergson gradients, head only", "bergson gradients, unrolled",
            "bergson cosine, unrolled", "bergson MAGIC",
        ),
        BERGSON,
    ),
}  # fmt: skip
MOST_GIB = 10  # of memory that one may take
LONGEST = 900  # seconds that one may take; training through the window takes less than one


def peer_scores(
    run: TrainingRun,
    settings: Settings,
    folder: Path,
    runs: Path,
    say: Callable[[str], None] = lambda words: None,
    names: tuple[str, ...] = tuple(PEERS),
) -> dict[str, Path]:
    """Scores of a run by other libraries, by name; those that failed are left out, and say why in their JSON file.

    run, settings: of the experiment. folder: of this run's peers; what is there is not made again. runs: keeps the run.
    say: called with lines of progress. names: which of PEERS.
    """
    make_folder(folder)
    if not (folder / "run.json").exists():
        on_disk(run, settings, runs).save(folder)
    found = {}
    for name in names:
        file = folder / f"{name.replace(', ', '-').replace(' ', '-')}.npy"
        record = file.with_suffix(".json")
        if not record.exists():
            said = _made(name, folder, file)
            write_json(record, {"name": name, **said})
            say(f"{name}: {said['error']}" if "error" in said else f"{name}: {said['seconds']:.1f} s")
        if "error" not in json.loads(record.read_text(encoding="utf-8")):
            found[name] = file
    return found


def _made(name: str, folder: Path, file: Path) -> dict[str, Any]:
    """Runs a worker that writes the file; {"seconds": of CPU} or {"error": the last line that it said}."""
    part = file.with_suffix(".part")
    worker = "sdi.experiments.meaning.peers.worker"
    command = [sys.executable, "-m", worker, str(folder), name, str(part), str(MOST_GIB << 30)]
    path = os.pathsep.join(filter(None, [str(PEERS[name].install()), os.environ.get("PYTHONPATH")]))
    one_thread = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            env={**os.environ, **one_thread, "PYTHONPATH": path},
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {LONGEST} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"stopped with {done.returncode}"]
        full = "allocate memory" in lines[-1] or "MemoryError" in lines[-1]
        return {"error": f"it takes more than {MOST_GIB} GiB of memory" if full else lines[-1][:300]}
    write_whole(file, part.read_bytes())
    part.unlink()
    return {"seconds": float(done.stdout.split()[-1])}
