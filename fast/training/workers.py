"""retrain_all: many counterfactual runs of one training run, in processes; each result is a file, made once."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import pickle
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty
from typing import Any

import torch
from safetensors.torch import load_file, save

from sdi.errors import AuditError
from sdi.files import write_whole
from sdi.retraining.change import Change
from sdi.retraining.training_run import TrainingRun

from ..guard.restore_model import unharmed
from .placed import Vector
from .replay import NOT_ALIKE, Replay, Stepper
from .state_file import digest
from .update import State

Tell = Callable[[float, int], None]  # runs done, of how many


def retrain_all(
    replay: Replay,
    changes: Sequence[Change],
    first: int,
    folder: Path | None = None,
    processes: int = 1,
    tell: Tell = lambda done, of: None,
) -> list[Vector]:
    """The weights that queries see after training with each change in the updates from `first` on.

    replay: the run itself. changes: one for each counterfactual run. folder: keeps each run's weights, and finds those
    that were made before. processes: how many work at once; each has one thread. tell: called with the runs done.
    """
    state = replay.state_before(first)
    keys = [key_of(replay, change, first) for change in changes]
    made: dict[int, Vector] = {}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        made = {r: load_file(path)["weights"] for r, key in enumerate(keys) if (path := _file(folder, key)).exists()}
    todo = [r for r in range(len(changes)) if r not in made]
    tell(len(made), len(changes))
    if processes > 1 and len(todo) > 1:
        made |= _in_processes(replay, changes, first, state, folder, keys, todo, processes, tell)
    else:
        for r in todo:
            done = len(made)
            made[r] = _one(
                replay, changes[r], first, state, folder, keys[r], lambda k, of, d=done: tell(d + k / of, len(changes))
            )
    return [made[r] for r in range(len(changes))]


def key_of(replay: Replay, change: Change, first: int) -> str:
    """A name for a counterfactual run that no other has: of the run, all its weights, the change and the window."""
    description = json.dumps(replay.run.description, sort_keys=True)
    content = [description, b"".join(replay.digests).hex(), change.key(), str(first), torch.__version__]
    return hashlib.sha256("\n".join(content).encode()).hexdigest()[:24]


def _file(folder: Path, key: str) -> Path:
    return folder / f"weights-{key}.safetensors"


def _one(
    stepper: Stepper, change: Change, first: int, state: State, folder: Path | None, key: str, tell: Any
) -> Vector:
    unfinished = None if folder is None else folder / f"state-{key}.safetensors"
    weights = stepper.retrain(change, first, state, unfinished, tell)
    if folder is not None:
        write_whole(_file(folder, key), save({"weights": weights.contiguous()}))
    return weights


def _in_processes(
    replay: Replay,
    changes: Sequence[Change],
    first: int,
    state: State,
    folder: Path | None,
    keys: Sequence[str],
    todo: Sequence[int],
    processes: int,
    tell: Tell,
) -> dict[int, Vector]:
    try:
        run = pickle.dumps(replay.run)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"processes must be 1 for this run, got {processes}: other processes cannot be given it ({error}); define "
            "model and loss at the top of a module"
        ) from None
    context = multiprocessing.get_context("spawn")
    tasks, results = context.Queue(), context.Queue()
    for r in todo:
        tasks.put((r, changes[r], keys[r]))
    count = min(processes, len(todo))
    for _ in range(count):
        tasks.put(None)
    common = (run, first, state.cpu().numpy(), replay.digests[first], folder, tasks, results)
    workers = [context.Process(target=_work, args=common, daemon=True) for _ in range(count)]
    made: dict[int, Vector] = {}
    before = len(changes) - len(todo)
    try:
        for worker in workers:
            worker.start()
        while len(made) < len(todo):
            try:
                r, weights, failure = results.get(timeout=1.0)
            except Empty:
                if not any(worker.is_alive() for worker in workers):
                    raise RuntimeError(
                        "the processes that retrain have died; run again, what is done is kept"
                    ) from None
                continue
            if failure is not None:
                raise AuditError(failure)
            made[r] = torch.from_numpy(weights)
            tell(before + len(made), len(changes))
    finally:
        for worker in workers:
            if worker.is_alive() and len(made) < len(todo):
                worker.terminate()
            worker.join()
    return made


def _work(run: bytes, first: int, state: Any, expected: bytes, folder: Path | None, tasks: Any, results: Any) -> None:
    """What a process does: check that it makes the same update as the others, then one change after another."""
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    try:
        known: TrainingRun = pickle.loads(run)  # from our own parent, not from a file
        stepper, before = Stepper(known), torch.from_numpy(state)
        with unharmed(stepper.placed.model):
            alike = digest(stepper.next(first, before)[0]) == expected
        if not alike:
            results.put((0, None, f"in another process, {NOT_ALIKE.format(first)}"))
            return
        while (task := tasks.get()) is not None:
            if parent is not None and not parent.is_alive():
                return
            r, change, key = task
            weights = _one(stepper, change, first, before, folder, key, lambda done, of: None)
            results.put((r, weights.cpu().numpy(), None))
    except Exception as error:
        results.put((0, None, f"{type(error).__name__}: {error}"))
        time.sleep(0.1)
