"""along_training: scores that cost less than the derivative through training, for every loop step, from the same run.

They take gradients where training met them, or at a few checkpoints, and ignore how later training bends or forgets a
push. One matrix multiplies all steps of a query, so steps and what is outside the loop still sum to the whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sdi.arguments import at_least_one, not_negative, number, one_of, whole
from sdi.backends import room
from sdi.files import expand
from sdi.inputs.batches import read_batches
from sdi.result.result import Result
from sdi.retraining.exact_result import exact_result
from sdi.retraining.optimisers import Adam
from sdi.retraining.progress import Tell, counting, silent
from sdi.retraining.retrain import carried_out
from sdi.retraining.training_run import TrainingRun, check_run
from sdi.version import __version__

PRECONDITIONS = (None, "adam", "fisher", "kronecker", "cosine")


def along_training(
    run: TrainingRun,
    query: Iterable[Any],
    *,
    precondition: str | None = None,
    checkpoints: int | None = 8,
    window: int | None = None,
    together: bool = False,
    damping: float = 0.1,
    m: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    progress: Tell = silent,
) -> Result:
    """Influence of every training example on every loop step of every query, by inner products along training.

    run: the training run. query: batches of queries.
    precondition: what multiplies gradients: None; "adam", Adam's second moments at that update; "fisher", a damped
        inverse of the mean outer product of training gradients, for each parameter tensor; "kronecker", the same, but
        as a Kronecker product for weights of `nn.Linear` (K-FAC); "cosine", lengths of 1.
    checkpoints: how many states of training gradients of both sides are taken at: TracIn split over steps. None: each
        example's gradient at the updates that meet it, the query's at the end.
    window: only the last `window` updates count; None: all of training.
    together: the mean loss of each batch of `query` is one query.
    damping: of "fisher" and "kronecker", as a share of their mean diagonal.
    m: of "fisher": sketch gradients to at most m numbers for each parameter tensor, and take the matrix of sketches:
        then gradients of one batch are held whole, not of all examples. None: no sketch. seed: of the sketches.
    folder: keeps the run. progress: called after every update or checkpoint.
    Returns a `Result` of mode "query": `sdi` (train, query, step). Standard errors: 0, or of sketches, to first order.
    """
    check_run(run)
    one_of("precondition", precondition, PRECONDITIONS)
    if precondition == "adam" and not isinstance(run.optimiser, Adam):
        raise ValueError(
            f"precondition='adam' needs a run trained by Adam, whose second moments it takes, got "
            f"{type(run.optimiser).__name__}"
        )
    if checkpoints is not None:
        at_least_one("checkpoints", whole("checkpoints", checkpoints))
    number("damping", damping, "a number above 0", lambda x: 0 < x < float("inf"))
    if m is not None:
        at_least_one("m", whole("m", m))
        if precondition != "fisher":
            raise ValueError(
                f"m is for precondition='fisher', got {precondition!r}; of sketched gradients without a matrix, "
                "sdi.attribute gives TracIn's scores"
            )
    not_negative("seed", whole("seed", seed))
    first = run.first(window)
    queries = list(read_batches(query, "query"))
    along: Any = room("fast.training.along")
    replay = carried_out(run, first, None if folder is None else expand(folder), progress)
    found = room("fast.training").query_gradients(run, replay.placed, replay.weights, queries, together)
    tell = counting("gradients along training", progress)
    began = time.process_time()
    by = along.Precondition(precondition, damping, m, seed)
    if checkpoints is None:
        phi = found.phi
        if precondition == "cosine":
            phi = phi / found.whole.norm(dim=1)[:, None, None].clamp(min=1e-30)
        made = along.met_on_the_way(replay, phi, by, tell)
    else:
        made = along.at_checkpoints(replay, queries, together, checkpoints, by, tell)
    seconds = time.process_time() - began
    base = replay.seconds_per_update * (run.updates - first)
    how = "gradients as met, steps at the end" if checkpoints is None else f"{checkpoints} checkpoints"
    info = {
        "settings": {
            "mode": "query",
            "window": run.updates - first,
            "method": how,
            "precondition": precondition,
            **({} if m is None else {"m": m, "seed": seed}),
        },
        "version": __version__,
        "window": run.updates - first,
        "updates": run.updates,
        "cost": {"seconds": seconds, "training": base, "multiple": seconds / base},
        "notes": _notes(run, precondition),
    }
    main, outside, losses = made.values[:, :, 1:], made.values[:, :, 0], found.losses.double().cpu().numpy()
    errors = np.sqrt(made.variance[:, :, 1:]), np.sqrt(made.whole_variance)
    return exact_result(run.ids, found.ids, "query", main, outside, np.asarray(found.tau), losses, info, errors)


def _notes(run: TrainingRun, precondition: str | None) -> list[str]:
    if isinstance(run.optimiser, Adam) and precondition is None:
        return ["trained by Adam: eta <g, phi> is no loss change, because Adam does not step along the gradient"]
    return []
