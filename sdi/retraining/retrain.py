"""retrain: train again with other weights of examples, and measure what it does to every loop step of every query."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdi.arguments import at_least_one, some_of, whole
from sdi.backends import room
from sdi.errors import AuditError
from sdi.files import expand
from sdi.inputs.batches import read_batches
from sdi.retraining.change import Change
from sdi.retraining.effects import Effects
from sdi.retraining.progress import Tell, counting, silent
from sdi.retraining.training_run import TrainingRun, check_run

SLACK = 1e-8  # of the sizes of what is summed, in float64; scaled up for coarser numbers


def retrain(
    run: TrainingRun,
    query: Iterable[Any],
    changes: Sequence[Change | Sequence[str]],
    *,
    window: int | None = None,
    together: bool = False,
    folder: str | Path | None = None,
    processes: int = 1,
    progress: Tell = silent,
) -> Effects:
    """Carry out a training run with each change, and compare every query's losses with those after the run itself.

    run: the training run; it is carried out once as it is, and must replay bit for bit.
    query: batches of queries, whose losses are compared.
    changes: one for each counterfactual run: an `sdi.Change`, or a list of ids to leave out.
    window: changes act in the last `window` updates only; None: in all of training.
    together: the mean loss of each batch of `query` is one query.
    folder: keeps the weights of every run, so that a call that was stopped goes on, and another finds what it needs.
    processes: how many train at once, with one thread each; more than 1 needs a run that can be pickled.
    progress: called after every update and every run.
    Returns `Effects`: what each of R runs changed in the losses of q queries (R, q), and through each step.
    """
    check_run(run)
    first = run.first(window)
    some_of("changes", changes, "changes")
    asked = [c if isinstance(c, Change) else Change.leave_out(c) for c in changes]
    for change in asked:
        change.check(run.ids)
    at_least_one("processes", whole("processes", processes))
    queries = list(read_batches(query, "query"))
    place = None if folder is None else expand(folder)
    training = room("fast.training")
    replay = carried_out(run, first, place, progress)
    made = training.retrain_all(replay, asked, first, place, processes, counting("retraining", progress))
    gradients = training.query_gradients(run, replay.placed, replay.weights, queries, together)
    tell = counting("comparing", progress)
    wholes, by_slot, first_order = [], [], []
    for r, weights in enumerate(made):
        swapped = training.swap_effects(run, replay.placed, replay.weights, weights, queries, together)
        moved = (weights - replay.weights).double()
        predicted = (gradients.phi.double() @ moved).cpu().numpy()
        _check_sums(predicted, gradients, moved, str(weights.dtype))
        wholes.append(swapped.whole)
        by_slot.append(swapped.by_slot)
        first_order.append(predicted)
        tell(r + 1, len(made))
    return Effects(
        run.ids,
        gradients.ids,
        np.stack([change.vector(run.ids) for change in asked]),
        gradients.losses.double().cpu().numpy(),
        np.stack(wholes),
        np.stack(by_slot),
        np.stack(first_order),
        {"window": window, "updates": run.updates, "dtype": str(weights.dtype), "seconds": replay.seconds},
    )


def carried_out(run: TrainingRun, first: int, folder: Path | None, progress: Tell) -> Any:
    """The run, carried out once; with a folder, read from it if it is there."""
    training = room("fast.training")
    file = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        model = training.Stepper(run).placed.vector().cpu().numpy()
        content = json.dumps([run.description, first, hashlib.sha256(model.tobytes()).hexdigest()], sort_keys=True)
        file = folder / f"run-{hashlib.sha256(content.encode()).hexdigest()[:24]}.safetensors"
    return training.Replay(run, first, file, counting("training", progress))


def _check_sums(predicted: np.ndarray, gradients: Any, moved: Any, dtype: str) -> None:
    """Conservation: the first-order effects of the slots sum to that of swapping everywhere."""
    total = (gradients.whole.double() @ moved).cpu().numpy()
    size = np.abs(predicted).sum(axis=1) + (gradients.phi.double().abs() @ moved.abs()).sum(dim=1).cpu().numpy()
    slack = SLACK if dtype.endswith("float64") else 1e-4 if dtype.endswith("float32") else 0.05
    wrong = np.abs(predicted.sum(axis=1) - total) > slack * size
    if wrong.any():
        j = int(wrong.argmax())
        raise AuditError(
            f"first-order step-swap effects of query {gradients.ids[j]!r} sum to {predicted[j].sum():.6g}, but "
            f"swapping everywhere has {total[j]:.6g}: some weights act outside of what the loop's steps were given"
        )
