"""through_training: the derivative of each query step by each training example's weight, through all of training.

A query's step gradient phi_j[t] at the end of training is pulled back through the optimiser's updates; what it says of
example i at each update, <grad loss_i, mu> / n, adds up to d loss_j / d w_i through step t. Scores have the sign of all
scores here: positive where training on i lowers the loss, so a score is minus that derivative, and the sum of the
scores of some examples is what leaving them out does to the loss, to first order.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from sdi.arguments import at_least_one, number, one_of, whole
from sdi.backends import room
from sdi.errors import SmoothnessError
from sdi.files import expand
from sdi.inputs.batches import read_batches
from sdi.result.result import STEP_AXES, Result
from sdi.retraining.change import Change, random_groups
from sdi.retraining.exact_result import exact_result
from sdi.retraining.horizon import ENOUGH, Horizon, agreement, predicted_effects
from sdi.retraining.progress import Tell, counting, silent
from sdi.retraining.retrain import carried_out
from sdi.retraining.training_run import TrainingRun, check_run
from sdi.version import __version__

PART = 0.0  # the weight of examples in the small real changes: they are left out wholly, as LDS does
SHARE = 0.05  # of the examples in each of them
ROUNDINGS = 100  # roundings of a loss: real effects up to so many are none
SHORTEST = 4  # updates of the shortest window that is tried


def through_training(
    run: TrainingRun,
    query: Iterable[Any],
    *,
    mode: str = "query",
    window: int | None = None,
    together: bool = False,
    probes: int = 4,
    beyond: bool = False,
    folder: str | Path | None = None,
    chunk: int = 16,
    progress: Tell = silent,
) -> Result:
    """Influence of every training example on every loop step of every query, differentiated through training.

    run: the training run. query: batches of queries.
    mode: whose steps are resolved: "query", "train", "matrix" (both) or "tracin" (none).
    window: only the last `window` updates are differentiated; None: all of training.
    together: the mean loss of each batch of `query` is one query.
    probes: how many small real changes are made, by retraining through the window, to see whether the derivative
        predicts them; 0 makes none. beyond: give scores even where it does not.
    folder: keeps the run and the retrainings. chunk: adjoints that are pulled back at once; more need more memory.
    progress: called after every update.

    Returns a `Result` of this mode; its `info` holds the window, the horizon that was measured, and the cost as a
    multiple of training.
    """
    check_run(run)
    one_of("mode", mode, tuple(STEP_AXES))
    number("probes", probes, "an integer of at least 0", lambda x: x >= 0 and x == int(x))
    at_least_one("chunk", whole("chunk", chunk))
    first = run.first(window)
    queries = list(read_batches(query, "query"))
    place = None if folder is None else expand(folder)
    training = room("fast.training")
    replay = carried_out(run, first, place, progress)
    gradients = training.query_gradients(run, replay.placed, replay.weights, queries, together)
    q, slots = gradients.phi.shape[:2]
    split = mode in ("query", "matrix")
    at_end = gradients.phi.flatten(0, 1) if split else gradients.whole
    windows = _windows(run.updates - first)
    pulled = training.pull_back(
        replay, at_end, steps=mode in ("train", "matrix"), windows=windows, chunk=chunk,
        tell=counting("pulling back", progress),
    )  # fmt: skip
    shape = (q, slots) if split else (q, 1)
    horizon = None
    if probes:
        by_window = {w: _by_example(pulled.at[w], shape) for w in windows}
        horizon = _measure(replay, queries, gradients, by_window, together, int(probes), split, place, pulled, progress)
        if horizon.smooth < run.updates - first and not beyond:
            raise SmoothnessError(
                f"the derivative through the last {run.updates - first} updates does not predict small real changes: "
                f"{horizon}; ask for window={horizon.smooth or 1} or less, train more smoothly (smaller rate, warm-up, "
                "larger eps_root, average), or take beyond=True"
            )
    base = replay.seconds_per_update * (run.updates - first)
    info = {
        "settings": {"mode": mode, "window": run.updates - first, "method": "through training"},
        "version": __version__,
        "window": run.updates - first,
        "updates": run.updates,
        "horizon": None if horizon is None else {**vars(horizon), "smooth": horizon.smooth},
        "cost": {
            "adjoints": len(at_end),
            "seconds": pulled.seconds,
            "training": base,
            "multiple": pulled.seconds / base,
        },
    }
    return _as_result(run, gradients, pulled, mode, info)


def _windows(longest: int) -> list[int]:
    """The windows that are tried: the whole one, its half, and so on, shortest first."""
    out = [longest]
    while out[-1] // 2 >= SHORTEST:
        out.append(out[-1] // 2)
    return out[::-1]


def _by_example(whole: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Derivatives (adjoints, n) as (n, q, slots)."""
    return np.moveaxis(whole.reshape(*shape, -1), -1, 0)


def _measure(
    replay: Any,
    queries: Any,
    gradients: Any,
    by_window: dict[int, np.ndarray],
    together: bool,
    probes: int,
    split: bool,
    folder: Path | None,
    pulled: Any,
    progress: Tell,
) -> Horizon:
    """Make small real changes in the longest window; if they are not as predicted, in shorter ones, down to one."""
    training, run = room("fast.training"), replay.run
    changes = [Change.leave_out(g, PART) for g in random_groups(run.ids, probes, SHARE)]
    weights = np.stack([change.vector(run.ids) for change in changes])
    losses = gradients.losses.abs()
    noise = ROUNDINGS * float(losses.max()) * float(np.finfo(str(losses.dtype).removeprefix("torch.")).eps)
    found: dict[int, float] = {}
    for window in sorted(by_window, reverse=True):
        tell = counting(f"small real changes in {window} updates", progress)
        made = training.retrain_all(replay, changes, run.updates - window, folder, 1, tell)
        swapped = [training.swap_effects(run, replay.placed, replay.weights, w, queries, together) for w in made]
        real = np.stack([s.by_slot if split else s.whole[:, None] for s in swapped])
        found[window] = agreement(predicted_effects(by_window[window], weights), real, noise)
        if found[window] >= ENOUGH:
            break
    end = np.maximum(pulled.norms[-1], 1e-300)
    growth = {w: float(np.max(pulled.norms[len(pulled.norms) - w] / end)) for w in found}
    order = sorted(found)
    return Horizon(tuple(order), tuple(found[w] for w in order), tuple(growth[w] for w in order))


def _as_result(run: TrainingRun, gradients: Any, pulled: Any, mode: str, info: dict[str, Any]) -> Result:
    q, slots = gradients.phi.shape[:2]
    tau = gradients.tau
    if mode == "query":
        every = -_by_example(pulled.whole, (q, slots))
        main, outside = every[:, :, 1:], every[:, :, 0]
    elif mode == "train":
        every = -np.moveaxis(pulled.by_slot, 0, 1)  # (n, q, slots)
        main, outside = every[:, :, 1:], every[:, :, 0]
        steps = np.where((main != 0).any(axis=1), np.arange(1, main.shape[2] + 1), 1)
        tau = steps.max(axis=1)  # the last step that an example was trained through
    elif mode == "matrix":
        # (n, q, train slots, query slots)
        every = -pulled.by_slot.reshape(q, slots, len(run.ids), -1).transpose(2, 0, 3, 1)
        main = every[:, :, 1:, 1:]
        outside = every.sum(axis=(2, 3)) - main.sum(axis=(2, 3))
    else:
        main, outside = -pulled.whole.T, np.zeros((len(run.ids), q))
    losses = gradients.losses.double().cpu().numpy()
    return exact_result(run.ids, gradients.ids, mode, main, outside, tau, losses, info)
