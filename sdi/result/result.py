"""Result: the scores of a run with labels and standard errors; ranks, summarises, plots, saves and loads them.

`by_checkpoint` has the dims (checkpoint, train, query, step), weighted by eta. Other modes have other step axes:
"train" the training example's steps, "matrix" both (train_step, step), "tracin" none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdi.arguments import at_least_one, one_of, whole
from sdi.errors import NonFiniteError, nearest_or_first
from sdi.files import expand, write_whole
from sdi.result.as_xarray import as_xarray
from sdi.result.figure_style import label
from sdi.result.notebook_table import result_table
from sdi.result.ranking import LATE, Top, check_order, order_keys, step_range, step_words, top_rows
from sdi.result.result_file import read_result, result_bytes
from sdi.scores import summaries

if TYPE_CHECKING:
    from xarray import DataArray

Array = np.ndarray
ARRAYS = ("by_checkpoint", "outside", "stderr", "tracin_stderr", "tau")
LOSS = "loss"  # an array that results of older versions, and those of stores that these began, do not have
STEP_AXES: dict[str, tuple[str, ...]] = {  # of each mode
    "query": ("step",),
    "train": ("step",),
    "matrix": ("train_step", "step"),
    "tracin": (),
}


def axes_of(mode: str) -> dict[str, tuple[str, ...]]:
    """The names of the axes of each array of a result."""
    main = ("train", "query", *STEP_AXES[mode])
    return {
        "by_checkpoint": ("checkpoint", *main),
        "outside": main[:2],
        "stderr": main,
        "tracin_stderr": main[:2],
        "tau": ("train" if mode == "train" else "query",),
        LOSS: ("checkpoint", "query"),
    }


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Scores with standard errors, and how they were made. Its arrays are `xarray.DataArray`s.

    Rows are in natural order of the examples' ids (t-9 before t-10), whatever the order of the loaders.
    """

    mode: str  # whose steps the scores have: "query", "train", "matrix" (both) or "tracin" (none)
    labels: Mapping[str, tuple[Any, ...]]  # of each axis: ids of checkpoints, train and query; numbers of steps
    arrays: Mapping[str, Array]  # the numbers of each array that is a property below, by its name
    info: Mapping[str, Any] = field(default_factory=dict)  # settings, versions, notes

    def __post_init__(self) -> None:
        for name, dims in self._axes.items():
            values, shape = self.arrays[name], tuple(len(self.labels[d]) for d in dims)
            if values.shape != shape:
                raise ValueError(f"{name} must have shape {shape} for axes {dims}, got {values.shape}")
            bad = np.argwhere(~np.isfinite(values))
            if len(bad):
                where = ", ".join(f"{d} {self.labels[d][k]!r}" for d, k in zip(dims, bad[0], strict=True))
                value = values[tuple(bad[0])]
                raise NonFiniteError(f"{name} at {where} is {value}; check the model's weights and eta")

    def __repr__(self) -> str:
        sizes = self.sizes
        points = sizes.pop("checkpoint")
        parts = [f"{points} checkpoint" + "s" * (points != 1)]
        parts += [f"{n} {dim.replace('_', ' ')}" + "s" * dim.endswith("step") for dim, n in sizes.items()]
        m = self.info.get("settings", {}).get("m")
        width = "" if m is None else ", m by parameter" if isinstance(m, Mapping) else f", m={m}"
        return f"Result(mode={self.mode!r}, {' x '.join(parts)}{width})"

    def _repr_html_(self) -> str:
        return result_table(self)

    @property
    def sizes(self) -> dict[str, int]:
        """The length of each axis of `by_checkpoint`, by its name."""
        return {dim: len(self.labels[dim]) for dim in self._axes["by_checkpoint"]}

    @cached_property
    def by_checkpoint(self) -> DataArray:
        """The scores at each checkpoint, weighted by its eta: (checkpoint, train, query, steps of the mode)."""
        return self._labelled("by_checkpoint")

    @cached_property
    def sdi(self) -> DataArray:
        """Influence over loop steps, summed over checkpoints: (train, query, step)."""
        return as_xarray(self.sdi_values, self._axes["stderr"], self.labels, "sdi")

    @cached_property
    def tracin(self) -> DataArray:
        """The whole influence, all steps and what enters outside the loop: (train, query)."""
        return as_xarray(self.tracin_values, self._axes["outside"], self.labels, "tracin")

    @cached_property
    def outside(self) -> DataArray:
        """What enters outside the loop, so that steps + outside = TracIn: (train, query)."""
        return self._labelled("outside")

    @cached_property
    def stderr(self) -> DataArray:
        """Standard errors of `sdi`."""
        return self._labelled("stderr")

    @cached_property
    def tracin_stderr(self) -> DataArray:
        """Standard errors of `tracin`."""
        return self._labelled("tracin_stderr")

    @cached_property
    def tau(self) -> DataArray:
        """The steps of each query, or in mode "train" of each training example."""
        return self._labelled("tau")

    @cached_property
    def loss(self) -> DataArray:
        """Each query's own loss at every checkpoint: (checkpoint, query)."""
        if LOSS not in self.arrays:
            raise ValueError("the losses of the queries are not known: an older sdi stored their features; run again "
                             "with a new store")  # fmt: skip
        return self._labelled(LOSS)

    @cached_property
    def sdi_values(self) -> Array:
        """The numbers of `sdi`."""
        return np.asarray(self.arrays["by_checkpoint"].sum(axis=0))

    @cached_property
    def tracin_values(self) -> Array:
        """The numbers of `tracin`."""
        total = self.sdi_values
        for _ in STEP_AXES[self.mode]:
            total = total.sum(axis=2)
        return np.asarray(total + self.arrays["outside"])

    def relative(self, checkpoint: str | None = None) -> Result:
        """The same result with all scores and errors of a query divided by its own loss at one checkpoint.

        A score of 0.01 then predicts that the loss falls by a hundredth of what it was.
        checkpoint: its label; by default the first, so that scores are shares of the loss that training began with.
        """
        loss = self.loss.values[0 if checkpoint is None else self.position("checkpoint", checkpoint)]
        if not (loss > 0).all():
            j = int(np.argmin(loss > 0))
            raise ValueError(f"query {self.labels['query'][j]!r} has the loss {loss[j]:g} there; only a loss above 0 "
                             "can be divided by")  # fmt: skip
        arrays = dict(self.arrays)
        for name in ("by_checkpoint", "outside", "stderr", "tracin_stderr"):
            before = self._axes[name].index("query")
            arrays[name] = arrays[name] / loss.reshape(-1, *[1] * (arrays[name].ndim - before - 1))
        point = self.labels["checkpoint"][0] if checkpoint is None else checkpoint
        note = f"scores are divided by the queries' losses at checkpoint {point}"
        return replace(self, arrays=arrays, info={**self.info, "notes": [*self.info.get("notes", []), note]})

    def nested(self, inner: int | None = None) -> DataArray:
        """`sdi` of a loop within a loop: (train, query, cycle, step), both counted from 1, so that sums over either
        axis are the scores of the other.

        inner: steps in a cycle of the outer loop; by default as in `Loop(inner=...)`, which numbers them so whatever
            each cycle takes. Of a loop without it, all cycles must have as many. (`stderr` is of single steps: those of
            a cycle share one sketch, so it is at most their sum.)
        """
        self._need_steps("nested")
        tau = len(self.labels["step"])
        inner = self.info.get("inner") if inner is None else inner
        if inner is None:
            raise ValueError("inner must be given: the loop of this result has no Loop(inner=...)")
        if not 1 <= whole("inner", inner) <= tau or tau % inner:
            raise ValueError(f"inner must divide the {tau} steps into cycles of one length, got {inner}")
        values = self.sdi_values.reshape(*self.sdi_values.shape[:2], -1, inner)
        cycles = {"cycle": range(1, tau // inner + 1), "step": range(1, inner + 1)}
        return as_xarray(values, ("train", "query", "cycle", "step"), {**self.labels, **cycles}, "sdi")

    def position(self, dim: str, label: Any) -> int:
        """The index of a label on an axis. dim: the axis's name. label: compared as text."""
        places = [str(c) for c in self.labels[dim]]
        if str(label) not in places:
            raise ValueError(f"no {dim} {label!r} among {len(places)}{nearest_or_first(str(label), places)}")
        return places.index(str(label))

    def only(self, train: Sequence[Any]) -> Result:
        """The result of some training examples. train: their ids."""
        rows = [self.position("train", i) for i in train]
        axes = self._axes
        cut = {n: np.take(a, rows, axes[n].index("train")) if "train" in axes[n] else a for n, a in self.arrays.items()}
        return replace(self, labels={**self.labels, "train": tuple(self.labels["train"][k] for k in rows)}, arrays=cut)

    @property
    def _axes(self) -> dict[str, tuple[str, ...]]:
        return {name: dims for name, dims in axes_of(self.mode).items() if name != LOSS or LOSS in self.arrays}

    def _labelled(self, name: str) -> DataArray:
        return as_xarray(self.arrays[name], self._axes[name], self.labels, name)

    @property
    def halves(self) -> np.ndarray:
        """The first step of the later half of each example's own loop."""
        return np.asarray(self.arrays["tau"] // 2 + 1)

    @property
    def notes(self) -> list[str]:
        """Remarks on the run: an eta of 0, calls outside the loop, parameters left out, doubtful error bars."""
        called = "body modules also act outside the loop: the steps of `sdi` and `outside` add up to `tracin`"
        return [*self.info.get("notes", []), *([called] if np.any(self.arrays["outside"]) else [])]

    def top(
        self,
        k: int = 10,
        *,
        query: Any,
        steps: slice | int | None = None,
        by: str = "signed",
        late: float = LATE,
    ) -> Top:
        """The k training examples that most influence a query.

        k: how many rows. query: its id.
        steps: a step or a slice of steps, from 1, both ends included; None: all, and what enters outside the loop.
        by: "signed", largest first; "absolute"; or "late", as absolute among the examples that have at least a share
            `late` of their influence in the later half of the loop.
        """
        k = check_order(k, by, late)
        j = self.position("query", query)
        scores, errors = self.tracin_values[:, j], self.arrays["tracin_stderr"][:, j]
        words = "all steps"
        if self.mode in ("query", "train"):
            sdi, tau = self.sdi_values[:, j], len(self.labels["step"])
            first, last = step_range(steps, tau)
            if steps is not None:
                scores = sdi[:, first - 1 : last].sum(axis=-1)
                # Steps share one sketch, so their errors may all point one way.
                errors = self.arrays["stderr"][:, j, first - 1 : last].sum(axis=-1)
                words = step_words(first, last, tau)
            shares = summaries.late_mass(np.abs(sdi), self.halves[j] if self.mode == "query" else self.halves)
        elif steps is None and by != "late":
            shares = np.full(len(scores), np.nan)
        else:
            raise ValueError(f"steps and by='late' need one step axis; this result has mode={self.mode!r}")
        keys = order_keys(scores, shares, by, late)
        order = [i for i in np.argsort(-keys, kind="stable")[: k + 1] if keys[i] > -np.inf]
        ids = [str(i) for i in self.labels["train"]]
        return Top(str(query), words, by, top_rows(ids, order, scores, keys, errors, shares, k))

    def summary(self) -> dict[str, DataArray]:
        """By name: energy (query, step); late_mass, centre_of_mass and horizon (query); cancellation (train, query)."""
        self._need_steps("summary")
        scores, energy = self.sdi_values, summaries.energy(self.sdi_values)
        first = self.halves[:, None] if self.mode == "query" else self.halves[:, None, None]
        late = np.array(self.labels["step"]) >= first  # by the own loop of each query, or of each training example
        halves = np.stack([np.abs(scores).sum(axis=(0, 2), where=part) for part in (~late, late)], axis=-1)
        found = {
            "energy": (energy, ("query", "step")),
            "late_mass": (summaries.late_mass(halves), ("query",)),
            "centre_of_mass": (summaries.centre_of_mass(energy), ("query",)),
            "horizon": (summaries.horizon(energy), ("query",)),
            "cancellation": (summaries.cancellation(scores), ("train", "query")),
        }
        return {name: as_xarray(values, dims, self.labels, name) for name, (values, dims) in found.items()}

    def summary_by_group(self, groups: Mapping[str, str]) -> dict[str, dict[str, DataArray]]:
        """`summary` for each group of training examples, by its name. groups: the group's name of every train id."""
        self._need_steps("summary_by_group")
        train = [str(i) for i in self.labels["train"]]
        missing = [i for i in train if i not in groups]
        if missing:
            raise ValueError(
                f"groups must name every training example; {missing[0]!r} has none ({len(missing)} do not)"
            )
        names = dict.fromkeys(groups[i] for i in train)
        return {name: self.only([i for i in train if groups[i] == name]).summary() for name in names}

    def plot(
        self,
        path: str | Path | None = None,
        *,
        query: Any = None,
        k: int = 6,
        kind: str = "trajectories",
        ax: Any = None,
        style: str = "screen",
    ) -> Any:
        """Draw the k training examples that act most on a query, and return matplotlib's axes (the extra [plot]).

        path: a picture to write: PNG, SVG, PDF or what else matplotlib knows. query: its id; by default the first.
        k: how many.
        kind: "trajectories", small multiples with 95% bands on one scale; or "heatmap", examples in rows, steps in
            columns.
        ax: axes to draw on; trajectories are then lines on it. By default a new figure has a list of axes, the last of
            which shows all training examples, or one for a heatmap.
        style: "screen"; or "paper", which fits one column of two.
        """
        from sdi.result.plot import plot_heatmap, plot_trajectories

        self._need_steps("plot")
        one_of("kind", kind, ("trajectories", "heatmap"))
        at_least_one("k", k := whole("k", k))
        side = "query" if self.mode == "query" else "training example"
        j = 0 if query is None else self.position("query", query)
        sdi, train, file = self.sdi_values[:, j], self.labels["train"], None if path is None else expand(path)
        name = self.labels["query"][j]
        if kind == "heatmap":
            return plot_heatmap(sdi, train, f"query {label(name)}", side, k, file, ax, style)
        return plot_trajectories(sdi, self.arrays["stderr"][:, j], train, name, k, side, file, ax, style)

    def save(self, path: str | Path) -> None:
        """Write one safetensors file with arrays, labels and a sha256, which `sdi.load` reads. path: the file."""
        axes = {name: {dim: self.labels[dim] for dim in dims} for name, dims in self._axes.items()}
        write_whole(expand(path), result_bytes(self.mode, self.arrays, axes, self.info))

    def _need_steps(self, verb: str) -> None:
        if self.mode not in ("query", "train"):
            raise ValueError(f"{verb} needs one step axis; this result has mode={self.mode!r}, use 'query' or 'train'")


def load(path: str | Path) -> Result:
    """Read a result that `Result.save` wrote; refused if the file was altered since. path: the file.

    Returns the `Result`.
    """
    path = expand(path)
    if path.is_dir():
        raise ValueError(
            f"result {path} is a folder; name the file in it, such as {str(path / 'result.safetensors')!r}"
        )
    if not path.is_file():
        raise ValueError(f"result {path} does not exist")
    mode, arrays, axes, info = read_result(path)
    altered = ValueError(f"{path} is not a result of sdi: its labels were altered")
    if mode not in STEP_AXES or {*axes} - {LOSS} != {*ARRAYS}:
        raise altered
    dims, labels = axes_of(mode), dict(axes["by_checkpoint"])
    for name, own in axes.items():
        if tuple(own) != dims[name] or any(labels.get(dim) != of_axis for dim, of_axis in own.items()):
            raise altered
    try:
        return Result(mode, labels, arrays, info)
    except NonFiniteError:
        raise
    except ValueError:
        raise altered from None
