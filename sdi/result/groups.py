"""group_scores: the influence of groups of training examples: documents, sources, labels.

Influence is linear, so a group's score is one inner product with the sum of its features. Its error bar is that of this
one product, and not a sum of its members' error bars, whose errors partly cancel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from sdi.arguments import some_of
from sdi.inputs.batches import in_order
from sdi.inputs.checkpoints import Checkpoint
from sdi.result.as_xarray import as_xarray
from sdi.result.question import read_steps
from sdi.result.ranking import LATE, Top, check_order, step_range, step_words, top_rows
from sdi.result.result import Result
from sdi.result.score_store import etas, make_result, stack, weigh
from sdi.result.train_blocks import BLOCK_BYTES
from sdi.scores import products as scores
from sdi.scores.standard_error import Sizes, block_norms, doubts, sizes, standard_error
from sdi.scores.summaries import late_mass
from sdi.store.store import Store

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import DataArray

Array = np.ndarray
Grouping = Mapping[str, Any] | Callable[[str], Any]
ENERGY = "energy"


@dataclass(frozen=True, eq=False)
class Groups:
    """The influence of groups on queries; what `group_scores` returns."""

    result: Result  # scores with standard errors; what stands for training examples there are the groups
    energies: Float[Array, "G q tau"]  # sums over the members of |sdi|
    sizes: Mapping[str, int]  # members of each group

    @property
    def sdi(self) -> DataArray:
        """The signed sums over each group's members, step by step: (group, query, step)."""
        return self.result.sdi.rename(train="group")

    @property
    def stderr(self) -> DataArray:
        """Standard errors of `sdi`."""
        return self.result.stderr.rename(train="group")

    @property
    def tracin(self) -> DataArray:
        """The signed sums over all steps and what enters outside the loop: (group, query)."""
        return self.result.tracin.rename(train="group")

    @property
    def tracin_stderr(self) -> DataArray:
        """Standard errors of `tracin`."""
        return self.result.tracin_stderr.rename(train="group")

    @property
    def energy(self) -> DataArray:
        """The sums of |sdi| over each group's members, whatever their signs; the sketch's noise adds to them."""
        labels = {**self.result.labels, "group": self.result.labels["train"]}
        return as_xarray(self.energies, ("group", "query", "step"), labels, ENERGY)

    def top(
        self,
        k: int = 10,
        *,
        query: Any,
        steps: slice | int | None = None,
        by: str = "signed",
        late: float = LATE,
    ) -> Top:
        """The k groups that most influence a query.

        k, query, steps, late: as in `Result.top`.
        by: "signed", "absolute" or "late", as there, of the groups' signed sums; or "energy", the sums of |sdi| over
            the members, which are then the scores, without error bars.
        """
        if by != ENERGY:
            top = self.result.top(k, query=query, steps=steps, by=by, late=late)
            return Top(top.query, top.steps, top.by, top.rows, "group")
        k = check_order(k, "signed", late)
        j, tau = self.result.position("query", query), len(self.result.labels["step"])
        first, last = step_range(steps, tau)
        found = self.energies[:, j, first - 1 : last].sum(axis=1)
        shares = late_mass(self.energies[:, j], int(self.result.halves[j]))
        order = np.argsort(-found, kind="stable")[: k + 1].tolist()
        rows = top_rows(list(self.result.labels["train"]), order, found, found, np.full(len(found), np.nan), shares, k)
        words = "all steps" if steps is None else step_words(first, last, tau)
        return Top(str(query), words, ENERGY, rows, "group")

    def to_pandas(self, query: Any) -> DataFrame:
        """A table of one query with a row for each group: members, score, stderr, energy, and each step's score.

        query: its id.
        """
        from pandas import DataFrame

        j, names = self.result.position("query", query), list(self.result.labels["train"])
        columns: dict[str, Any] = {
            "members": [self.sizes[name] for name in names],
            "score": self.result.tracin_values[:, j],
            "stderr": self.result.arrays["tracin_stderr"][:, j],
            ENERGY: self.energies[:, j].sum(axis=1),
        }
        columns |= {f"step {t}": self.result.sdi_values[:, j, t - 1] for t in self.result.labels["step"]}
        return DataFrame(columns, index=names).rename_axis("group")


def group_scores(
    store: Store,
    checkpoints: Sequence[Checkpoint],
    groups: Grouping,
    queries: Sequence[str] | None = None,
    train: Sequence[str] | None = None,
    stderr: str = "auto",
) -> Groups:
    """The influence of groups of training examples on the steps of queries, with standard errors.

    store: a store that holds the steps of its queries. checkpoints: those to sum over, from `find_checkpoints`.
    groups: the name of every training example's group, by its id, or a function that gives it; None leaves one out.
    queries: their ids; None: all in the store. train: the ids to group; None: all in the store.
    stderr: "bound", "estimated", or "auto", as the store was begun.
    Returns `Groups`: `sdi` and `stderr` (group, query, step), `tracin` (group, query).
    """
    bars = store.bars(stderr)
    some_of("checkpoints", checkpoints, "checkpoints, as `find_checkpoints` gives")
    keys = [c.key for c in checkpoints]
    queries = in_order(store.rows(keys[0], "query")) if queries is None else queries
    ids = in_order(store.rows(keys[0], "train")) if train is None else train
    some_of("queries", queries, "ids")
    some_of("train", ids, "ids")
    group_of = _grouped(ids, groups)
    names = in_order(set(group_of.values()))
    place = {name: k for k, name in enumerate(names)}
    asked = [read_steps(store, c, queries) for c in checkpoints]
    weighted = [weigh(f, etas(c, store)) for f, c in zip(asked, checkpoints, strict=True)]
    tau = max(f.phi.shape[1] for f in asked)
    sums = [_Sum(len(names), store) for _ in checkpoints]
    energies = np.zeros((len(names), len(queries), tau))
    for some in _chunks(list(group_of), store):
        at = np.array([place[group_of[i]] for i in some])
        by_step: list[Array] = []
        for total, c, f in zip(sums, checkpoints, weighted, strict=True):
            features = store.read(c.key, "train", some)
            total.add(at, sizes(features, store.dtype, whole=True))
            by_step.append(scores.sdi(features, f))
        np.add.at(energies, at, np.abs(stack(by_step).sum(axis=0)))
    main, outside = [], []
    errors: list[Array] = []
    total_errors: list[Array] = []
    for total, c, one, f in zip(sums, checkpoints, asked, weighted, strict=True):
        g, eta = total.sizes(one), etas(c, store)
        main.append(scores.sdi(g.values, f.phi))
        outside.append(np.zeros(main[-1].shape[:2]) if f.outside is None else g.values @ f.outside.T)
        for found, whole in ((errors, False), (total_errors, True)):
            found.append(standard_error(store.sketch, g, sizes(one, store.dtype, whole=whole), eta, bars))
    members = Counter(group_of.values())
    taus, losses = [f.tau for f in asked], [f.losses for f in asked]
    info: dict[str, Any] = {"notes": doubts(store.sketch, bars)}
    if "inner" in store.manifest["config"].get("loop", {}):
        info["inner"] = store.manifest["config"]["loop"]["inner"]
    parts = (main, outside, errors, total_errors, taus, losses)
    result = make_result(checkpoints, names, queries, "query", *parts, info)
    return Groups(result, energies, {name: members[name] for name in names})


class _Sum:
    """The summed gradients of each group, and the variance that float16's rounding of the members adds."""

    def __init__(self, groups: int, store: Store) -> None:
        self.values = np.zeros((groups, store.sketch.size))
        self.rounding = np.zeros((groups, len(store.blocks)))
        self.rounds = False

    def add(self, at: Int[Array, "b"], members: Sizes) -> None:
        np.add.at(self.values, at, members.values.astype(np.float64))
        if members.rounding is not None:
            self.rounds = True
            np.add.at(self.rounding, at, members.rounding)

    def sizes(self, like: Any) -> Sizes:
        return Sizes(self.values, block_norms(self.values, like), self.rounding if self.rounds else None)


def _grouped(ids: Sequence[str], groups: Grouping) -> dict[str, str]:
    """The group of each id, without those that have none."""
    if not callable(groups):
        missing = [i for i in ids if i not in groups]
        if missing:
            raise ValueError(
                f"groups must name every training example; {missing[0]!r} has none ({len(missing)} do not); "
                "None leaves an example out"
            )
    found = {i: groups(i) if callable(groups) else groups[i] for i in ids}
    named = {i: str(name) for i, name in found.items() if name is not None}
    if not named:
        raise ValueError("groups must name a group for at least one training example, got None for all")
    return named


def _chunks(ids: list[str], store: Store) -> Iterator[list[str]]:
    size = max(1, BLOCK_BYTES // (store.sketch.size * 8))
    return (ids[k : k + size] for k in range(0, len(ids), size))
