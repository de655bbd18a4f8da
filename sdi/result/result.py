"""Result: the scores of a run with labels and standard errors; ranks, summarises, plots, saves and loads them.

`by_checkpoint` has the dims (checkpoint, train, query, step), weighted by eta. Other modes have other step axes:
"train" the training example's steps, "matrix" both (train_step, step), "tracin" none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sdi.errors import NonFiniteError
from sdi.files import expand, write_whole
from sdi.result.labelled import Labelled
from sdi.result.ranking import LATE, Top, check_order, order_keys, step_range, step_words, top_rows
from sdi.result.result_file import read_result, result_bytes
from sdi.scores import summaries

ARRAYS = ("by_checkpoint", "outside", "stderr", "tracin_stderr", "tau")
STEP_AXES: dict[str, tuple[str, ...]] = {  # of each mode
    "query": ("step",),
    "train": ("step",),
    "matrix": ("train_step", "step"),
    "tracin": (),
}


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Scores with standard errors, and how they were made."""

    mode: str  # whose steps the scores have: "query", "train", "matrix" (both) or "tracin" (none)
    by_checkpoint: Labelled  # (checkpoint, train, query, steps of the mode), weighted by eta
    outside: Labelled  # (train, query): what enters outside the loop, so that steps + outside = TracIn
    stderr: Labelled  # of `sdi`: (train, query, steps of the mode)
    tracin_stderr: Labelled  # (train, query)
    tau: Labelled  # steps of each query, or in mode "train" of each training example
    info: Mapping[str, Any] = field(default_factory=dict)  # settings, versions, notes

    def __post_init__(self) -> None:
        for name in ARRAYS:
            array: Labelled = getattr(self, name)
            bad = np.argwhere(~np.isfinite(array.values))
            if len(bad):
                where = ", ".join(f"{d} {array.coords[d][k]!r}" for d, k in zip(array.dims, bad[0], strict=True))
                value = array.values[tuple(bad[0])]
                raise NonFiniteError(f"{name} at {where} is {value}; check the model's weights and eta")

    def __repr__(self) -> str:
        sizes = dict(zip(self.by_checkpoint.dims, self.by_checkpoint.shape, strict=True))
        points = sizes.pop("checkpoint")
        parts = [f"{points} checkpoint" + "s" * (points != 1)]
        parts += [f"{n} {dim.replace('_', ' ')}" + "s" * dim.endswith("step") for dim, n in sizes.items()]
        m = self.info.get("settings", {}).get("m")
        width = "" if m is None else ", m by parameter" if isinstance(m, Mapping) else f", m={m}"
        return f"Result(mode={self.mode!r}, {' x '.join(parts)}{width})"

    @cached_property
    def sdi(self) -> Labelled:
        """Influence over loop steps, summed over checkpoints: (train, query, step)."""
        return self.by_checkpoint.sum("checkpoint")

    @cached_property
    def tracin(self) -> Labelled:
        """The whole influence: all steps and what enters outside the loop."""
        total = self.sdi
        for dim in STEP_AXES[self.mode]:
            total = total.sum(dim)
        return Labelled(total.values + self.outside.values, total.dims, total.coords)

    @property
    def halves(self) -> np.ndarray:
        """The first step of the later half of each example's own loop."""
        return np.asarray(self.tau.values // 2 + 1)

    @property
    def notes(self) -> list[str]:
        """Remarks on the run: an eta of 0, calls outside the loop, parameters left out, doubtful error bars."""
        called = "body modules also act outside the loop: the steps of `sdi` and `outside` add up to `tracin`"
        return [*self.info.get("notes", []), *([called] if np.any(self.outside.values) else [])]

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
        j = self.tracin.position("query", query)
        scores, errors = self.tracin.values[:, j], self.tracin_stderr.values[:, j]
        words = "all steps"
        if self.mode in ("query", "train"):
            sdi, tau = self.sdi.values[:, j], len(self.sdi.coords["step"])
            first, last = step_range(steps, tau)
            if steps is not None:
                scores = sdi[:, first - 1 : last].sum(axis=-1)
                # Steps share one sketch, so their errors may all point one way.
                errors = self.stderr.values[:, j, first - 1 : last].sum(axis=-1)
                words = step_words(first, last, tau)
            shares = summaries.late_mass(np.abs(sdi), self.halves[j] if self.mode == "query" else self.halves)
        elif steps is None and by != "late":
            shares = np.full(len(scores), np.nan)
        else:
            raise ValueError(f"steps and by='late' need one step axis; this result has mode={self.mode!r}")
        keys = order_keys(scores, shares, by, late)
        order = [i for i in np.argsort(-keys, kind="stable")[: k + 1] if keys[i] > -np.inf]
        ids = [str(i) for i in self.tracin.coords["train"]]
        return Top(str(query), words, by, top_rows(ids, order, scores, keys, errors, shares, k))

    def summary(self) -> dict[str, Labelled]:
        """By name: energy (query, step); late_mass, centre_of_mass and horizon (query); cancellation (train, query)."""
        self._need_steps("summary")
        coords = self.sdi.coords
        energy = summaries.energy(self.sdi.values)
        first = self.halves[:, None] if self.mode == "query" else self.halves[:, None, None]
        late = np.array(coords["step"]) >= first  # by the own loop of each query, or of each training example
        halves = np.stack([np.abs(self.sdi.values).sum(axis=(0, 2), where=part) for part in (~late, late)], axis=-1)
        per_query = {"query": coords["query"]}
        return {
            "energy": Labelled(energy, ("query", "step"), {**per_query, "step": coords["step"]}),
            "late_mass": Labelled(summaries.late_mass(halves), ("query",), per_query),
            "centre_of_mass": Labelled(summaries.centre_of_mass(energy), ("query",), per_query),
            "horizon": Labelled(summaries.horizon(energy), ("query",), per_query),
            "cancellation": Labelled(
                summaries.cancellation(self.sdi.values), ("train", "query"), {"train": coords["train"], **per_query}
            ),
        }

    def summary_by_group(self, groups: Mapping[str, str]) -> dict[str, dict[str, Labelled]]:
        """`summary` for each group of training examples, by its name. groups: the group's name of every train id."""
        self._need_steps("summary_by_group")
        train = [str(i) for i in self.sdi.coords["train"]]
        missing = [i for i in train if i not in groups]
        if missing:
            raise ValueError(
                f"groups must name every training example; {missing[0]!r} has none ({len(missing)} do not)"
            )
        out = {}
        for name in dict.fromkeys(groups[i] for i in train):
            rows = [k for k, i in enumerate(train) if groups[i] == name]
            out[name] = self._only(rows).summary()
        return out

    def _only(self, rows: list[int]) -> Result:
        def cut(a: Labelled) -> Labelled:
            coords = {**a.coords, "train": tuple(a.coords["train"][k] for k in rows)}
            return Labelled(np.take(a.values, rows, axis=a.dims.index("train")), a.dims, coords)

        arrays = {n: getattr(self, n) for n in ARRAYS}
        return Result(self.mode, info=self.info, **{n: cut(a) if "train" in a.dims else a for n, a in arrays.items()})

    def plot(self, path: str | Path, *, query: Any = None, k: int = 5) -> None:
        """Draw the trajectories of the k strongest training examples on a query (needs matplotlib).

        path: the picture to write. query: its id; by default the first. k: how many trajectories.
        """
        from sdi.result.plot import plot_trajectories

        self._need_steps("plot")
        side = "query" if self.mode == "query" else "training example"
        plot_trajectories(self.sdi, self.stderr, expand(path), query, k, side)

    def save(self, path: str | Path) -> None:
        """Write one safetensors file with arrays, labels and a sha256, which `sdi.load` reads. path: the file."""
        arrays = {n: getattr(self, n) for n in ARRAYS}
        write_whole(expand(path), result_bytes(self.mode, arrays, self.info))

    def _need_steps(self, verb: str) -> None:
        if self.mode not in ("query", "train"):
            raise ValueError(f"{verb} needs one step axis; this result has mode={self.mode!r}, use 'query' or 'train'")


def load(path: str | Path) -> Result:
    """Read a result that `Result.save` wrote; refused if the file was altered since. path: the file."""
    path = expand(path)
    if path.is_dir():
        raise ValueError(
            f"result {path} is a folder; name the file in it, such as {str(path / 'result.safetensors')!r}"
        )
    if not path.is_file():
        raise ValueError(f"result {path} does not exist")
    mode, arrays, info = read_result(path)
    axes = ("train", "query", *STEP_AXES.get(mode, ()))
    dims = {"by_checkpoint": ("checkpoint", *axes), "stderr": axes, "outside": axes[:2], "tracin_stderr": axes[:2]}
    dims["tau"] = ("train" if mode == "train" else "query",)
    if mode not in STEP_AXES or {name: array.dims for name, array in arrays.items()} != dims:
        raise ValueError(f"{path} is not a result of sdi: its labels were altered")
    return Result(mode=mode, info=info, **arrays)
