"""judge: retrain without random groups, and say of every score how well it predicted what happened, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.arguments import number, some_of
from sdi.files import expand
from sdi.inputs.batches import read_batches
from sdi.result.result import Result, load
from sdi.retraining.change import Change, random_groups
from sdi.retraining.effects import Effects
from sdi.retraining.horizon import metasmoothness
from sdi.retraining.linear_datamodelling import (
    FEWEST,
    Interval,
    check_runs,
    lds,
    lds_of_each,
    noise_ceiling,
    predicted_by_scores,
    query_loss_difference,
)
from sdi.retraining.progress import Tell, silent
from sdi.retraining.retrain import retrain
from sdi.retraining.training_run import TrainingRun, check_run

STRAIGHT = 0.7  # metasmoothness below which a derivative cannot be expected to predict
Array = np.ndarray
Scores = Result | Float[Array, "n q"] | Float[Array, "n q tau"]


@dataclass(frozen=True)
class Judged:
    """What retraining says of one score."""

    lds: Interval  # of the whole loss: one column
    steps: Interval | None  # of each loop step; None if the score has no steps
    qld: Interval | None  # of the whole loss, if it was asked for
    by_run: Float[Array, "runs c"]  # LDS in each training run: of the whole loss, then of each step

    @property
    def lowest(self) -> tuple[float, int, int]:
        """The lowest LDS in one run, that run's place, and the step, 0 being the whole loss. A mean may hide it."""
        if np.isnan(self.by_run).all():
            return float("nan"), 0, 0
        run, step = np.unravel_index(np.nanargmin(self.by_run), self.by_run.shape)
        return float(self.by_run[run, step]), int(run), int(step)


@dataclass(frozen=True)
class Judgement:
    """What retraining says of scores, and what it says of itself."""

    scores: Mapping[str, Judged]  # by the name of the score
    ceiling: Interval | None  # LDS between seeds: whole loss first, then each step; None with one seed
    smoothness: float  # metasmoothness: 1 is straight, 0 a coin's toss
    effects: tuple[Effects, ...]  # of each seed
    notes: tuple[str, ...] = field(default=())  # on what the figures rest

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON; NaN, where nothing varies, is None."""
        return {
            "scores": {
                name: {
                    **{key: _plain(getattr(judged, key)) for key in ("lds", "steps", "qld")},
                    "by_run": [_finite(row) for row in judged.by_run],
                }
                for name, judged in self.scores.items()
            },
            "ceiling": _plain(self.ceiling),
            "metasmoothness": self.smoothness,
            "notes": list(self.notes),
            "runs": [effects.runs for effects in self.effects],
            "queries": len(self.effects[0].query_ids),
        }


def judge(
    runs: TrainingRun | Sequence[TrainingRun],
    query: Iterable[Any],
    scores: Mapping[str, Any],
    *,
    groups: int = 40,
    share: float = 0.05,
    window: int | None = None,
    together: bool = False,
    qld: float | None = None,
    folder: str | Path | None = None,
    processes: int = 1,
    seed: int = 0,
    progress: Tell = silent,
) -> Judgement:
    """Retrain without random groups of examples, and compare what happened with what each score predicted.

    runs: the training run, or the same run with other seeds, all with the same training examples.
    query: batches of queries. scores: by name; a `Result`, the file of one, an array (train, query) or (train, query,
        step) in the order of `run.ids`, an .npy file of one, a function of a run that gives one of these, or a list of
        them, one for each run.
    groups: how many runs leave a random group out. share: of the examples in each group.
    window: examples are left out of the last `window` updates only; None: of all of training.
    together: the mean loss of each batch of `query` is one query.
    qld: also leave out this share of each query's top examples, by each score, and compare with ten random groups.
    folder: keeps all runs. processes: how many train at once. seed: of groups and bootstrap. progress: as in `retrain`.
    Returns a `Judgement`: for each score, correlations with 95% intervals, of the whole loss and of each step.
    """
    each = [runs] if isinstance(runs, TrainingRun) else list(runs)
    some_of("runs", each, "training runs")
    for run in each:
        check_run(run)
        if run.ids != each[0].ids and set(run.ids) != set(each[0].ids):
            raise ValueError("runs must have the same training examples; they differ between seeds")
    check_runs(groups)
    if qld is not None:
        number("qld", qld, "a share above 0 and at most 0.5", lambda x: 0 < x <= 0.5)
    queries = list(query)
    common: dict[str, Any] = {
        "window": window, "together": together, "folder": folder, "processes": processes, "progress": progress,
    }  # fmt: skip
    q = len(queries) if together else sum(len(batch.ids) for batch in read_batches(queries, "query"))
    opened = {name: [_open(given, r, name, run, q) for r, run in enumerate(each)] for name, given in scores.items()}
    ids = sorted(each[0].ids)
    chosen = random_groups(ids, groups, share, seed)
    halves = chosen[: max(4, groups // 10)]
    changes = [*map(Change.leave_out, chosen), *(Change.leave_out(g, 0.5) for g in halves)]
    both = [retrain(run, queries, changes, **common) for run in each]
    effects = [e.only(slice(0, groups)) for e in both]
    straight = float(np.mean([
        metasmoothness(e.by_slot[groups:], e.by_slot[: len(halves)]) for e in both
    ]))  # fmt: skip
    arrays = {
        name: [_as_arrays(one, name, run, e) for one, run, e in zip(of, each, effects, strict=True)]
        for name, of in opened.items()
    }
    dropped: dict[str, Interval] = {}
    if qld is not None:
        wholes = {name: of[0][0] for name, of in arrays.items()}
        dropped = _qld(each[0], queries, wholes, FEWEST, qld, seed, common)
    judged = {name: _judge_one(of, effects, dropped.get(name), seed) for name, of in arrays.items()}
    ceiling = noise_ceiling([_columns(e) for e in effects], seed) if len(effects) > 1 else None
    notes = (*_notes(straight, effects), *_beyond_horizon(opened))
    return Judgement(judged, ceiling, straight, tuple(effects), notes)


def _judge_one(
    arrays: Sequence[tuple[Array, Array | None]], effects: Sequence[Effects], qld: Interval | None, seed: int
) -> Judged:
    predicted = [
        predicted_by_scores(whole[..., None], e.weights) for (whole, _), e in zip(arrays, effects, strict=True)
    ]
    real = [e.whole[..., None] for e in effects]
    whole, by_run, steps = lds(predicted, real, seed), lds_of_each(predicted, real), None
    if all(by_step is not None for _, by_step in arrays):
        known = [by_step for _, by_step in arrays if by_step is not None]
        guessed = [predicted_by_scores(s, e.weights) for s, e in zip(known, effects, strict=True)]
        steps = lds(guessed, [e.steps for e in effects], seed)
        by_run = np.concatenate([by_run, lds_of_each(guessed, [e.steps for e in effects])], axis=1)
    return Judged(whole, steps, qld, by_run)


def _qld(
    run: TrainingRun, queries: Any, wholes: Mapping[str, Array], groups: int, share: float, seed: int, common: Any
) -> dict[str, Interval]:
    """QLD of each score, on the first run. wholes: by name, scores (n, q). The random groups are the same for all."""
    size = max(1, round(share * len(run.ids)))
    chance = random_groups(sorted(run.ids), groups, size / len(run.ids), seed + 1)
    tops = [
        [run.ids[i] for i in np.argsort(-whole[:, j], kind="stable")[:size]]
        for whole in wholes.values()
        for j in range(whole.shape[1])
    ]
    made = retrain(run, queries, [*chance, *tops], **common).whole[..., None]
    parts = np.split(made[groups:], len(wholes)) if wholes else []
    return {name: query_loss_difference(top, made[:groups], seed) for name, top in zip(wholes, parts, strict=True)}


def _columns(effects: Effects) -> Float[Array, "R q c"]:
    """The whole effect first, then those of the steps."""
    return np.concatenate([effects.whole[..., None], effects.steps], axis=2)


def _open(given: Any, place: int, name: str, run: TrainingRun, q: int) -> Result | Array:
    """One run's scores, a result or an array; refused before anything is retrained if they are of other examples."""
    if isinstance(given, (list, tuple)):
        if len(given) <= place:
            raise ValueError(f"scores {name!r} must be given for each run, got {len(given)}")
        given = given[place]
    if isinstance(given, Callable):  # type: ignore[arg-type]
        given = given(run)
    given = _read(expand(given)) if isinstance(given, (str, Path)) else given
    if isinstance(given, Result):
        _check_labels(given, name, "train", run.ids)
        return given
    array = np.asarray(given, dtype=np.float64)
    if array.ndim not in (2, 3) or array.shape[:2] != (len(run.ids), q):
        n = len(run.ids)
        raise ValueError(f"scores {name!r} must have shape {(n, q)} or ({n}, {q}, steps), got {array.shape}")
    return array


def _as_arrays(given: Result | Array, name: str, run: TrainingRun, effects: Effects) -> tuple[Array, Array | None]:
    """(whole scores, scores of steps or None), in the order of the run's examples and queries."""
    if isinstance(given, Result):
        return _of_result(given, name, run, effects)
    if given.ndim == 2:
        return given, None
    wanted = (*given.shape[:2], effects.steps.shape[2])
    if given.shape != wanted:
        raise ValueError(f"scores {name!r} must have shape {wanted[:2]} or {wanted}, got {given.shape}")
    return given.sum(axis=2), given


def _check_labels(result: Result, name: str, dim: str, wanted: Iterable[str]) -> None:
    missing = set(wanted) - {str(i) for i in result.labels[dim]}
    if missing:
        raise ValueError(f"scores {name!r} lack {len(missing)} of the {dim} examples, {sorted(missing)[0]!r} first")


def _of_result(result: Result, name: str, run: TrainingRun, effects: Effects) -> tuple[Array, Array | None]:
    _check_labels(result, name, "query", effects.query_ids)
    rows = [result.position("train", i) for i in run.ids]
    columns = [result.position("query", i) for i in effects.query_ids]
    total = result.tracin_values[np.ix_(rows, columns)]
    if result.mode != "query":
        return total, None
    tau = effects.steps.shape[2]
    steps = result.sdi_values[np.ix_(rows, columns)]
    if steps.shape[2] < tau or steps[..., tau:].any():
        raise ValueError(f"scores {name!r} have {steps.shape[2]} steps, the queries take {tau}")
    return total, steps[..., :tau]


def _read(path: Path) -> Any:
    if path.suffix != ".npy":
        return load(path)
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"scores {path} cannot be read: {error}") from None


def _notes(straight: float, effects: Sequence[Effects]) -> tuple[str, ...]:
    notes = []
    if straight < STRAIGHT:
        notes.append(
            f"training is not smooth at this scale (metasmoothness {straight:.2f}, below {STRAIGHT}): no derivative "
            "can be expected to predict these runs; leave out smaller groups, in a shorter window, or train smoother"
        )
    bent = [np.abs(e.first_order - e.by_slot).sum() / max(np.abs(e.by_slot).sum(), 1e-300) for e in effects]
    if max(bent) > 0.5:
        notes.append(
            f"the queries' losses bend: step-swap effects differ from first order by {max(bent):.0%} of their size"
        )
    return tuple(notes)


def _beyond_horizon(opened: Mapping[str, Sequence[Any]]) -> list[str]:
    """A note on each derivative that was taken through more updates than it predicts small real changes through."""
    notes = []
    for name, of in opened.items():
        infos = [given.info if isinstance(given, Result) else {} for given in of]
        found = [
            (run, info["horizon"]["smooth"], info["window"]) for run, info in enumerate(infos, 1) if _has_horizon(info)
        ]
        short = [f"{smooth} of {window} in run {run}" for run, smooth, window in found if smooth < window]
        if short:
            notes.append(
                f"{name} goes back further than it predicts small real changes ({', '.join(short)} updates): its "
                "figures cannot be expected to be high; take a window as short as that"
            )
    return notes


def _has_horizon(info: Mapping[str, Any]) -> bool:
    """Whether a result says how far back it predicts: a derivative that was probed. A file may say anything."""
    horizon = info.get("horizon")
    return isinstance(horizon, dict) and all(type(x) is int for x in (horizon.get("smooth"), info.get("window")))


def _plain(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {key: _finite(values) for key, values in interval._asdict().items()}


def _finite(values: Iterable[float]) -> list[float | None]:
    return [float(x) if np.isfinite(x) else None for x in values]
