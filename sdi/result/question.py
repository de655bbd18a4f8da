"""Question: what rankings are asked for, as the vectors to multiply training rows with, and their answers in detail.

A target is a query, or one of its steps, or a range of them: one vector, since influence is linear. By "late", every
step of every query is a column, too, for the shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sdi.arguments import some_of
from sdi.inputs.checkpoints import Checkpoint
from sdi.result.ranking import Top, check_order, order_keys, step_range, step_words, top_rows
from sdi.result.score_store import etas, weigh
from sdi.scores.standard_error import Sizes, sizes, standard_error
from sdi.scores.summaries import late_mass
from sdi.store.features import Features
from sdi.store.store import Store

Array = np.ndarray


class Target(NamedTuple):
    """What to rank for: the steps first to last of a query, summed; if `whole`, all steps and what enters outside."""

    query: int
    first: int
    last: int
    whole: bool

    def of(self, features: Features) -> Float[Array, "D"]:
        """The target's steps of the query's features, summed: by linearity this may be done before the product."""
        steps = features.phi[self.query, self.first - 1 : self.last].sum(axis=0)
        return steps + features.outside[self.query] if self.whole and features.outside is not None else steps

    def words(self, tau: int) -> str:
        return "all steps" if self.whole else step_words(self.first, self.last, tau)


@dataclass(frozen=True, eq=False)
class Question:
    """Targets with the queries' features at every checkpoint; made by `Question.ask`."""

    checkpoints: Sequence[Checkpoint]
    features: list[Features]  # of the queries, one for each checkpoint
    weighted: list[Features]  # times eta
    etas: list[Float[Array, "P"]]
    targets: list[Target]
    half: Int[Array, "q"]  # the first step of the later half of each query
    k: int
    by: str
    late: float
    bars: str
    train_steps: tuple[int, int] | None

    @classmethod
    def ask(
        cls,
        store: Store,
        checkpoints: Sequence[Checkpoint],
        queries: Sequence[str],
        k: int,
        steps: slice | int | None,
        by: str,
        late: float,
        each_step: bool,
        stderr: str,
        train_steps: slice | int | None,
    ) -> Question:
        """The arguments are those of `stream_top`."""
        k, bars = check_order(k, by, late), store.bars(stderr)
        some_of("checkpoints", checkpoints, "checkpoints, as `find_checkpoints` gives")
        some_of("queries", queries, "ids")
        features = [read_steps(store, c, queries) for c in checkpoints]
        tau = max(f.phi.shape[1] for f in features)
        features = [_padded(f, tau) for f in features]
        first, last = step_range(steps, tau)
        targets = [
            Target(j, t, t if each_step else last, steps is None and not each_step)
            for j in range(len(queries))
            for t in (range(first, last + 1) if each_step else [first])
        ]
        eta = [etas(c, store) for c in checkpoints]
        weighted = [weigh(f, e) for f, e in zip(features, eta, strict=True)]
        half = np.max([f.tau for f in features], axis=0) // 2 + 1
        of_train = None if train_steps is None else step_range(train_steps, longest(store, checkpoints))
        return cls(checkpoints, features, weighted, eta, targets, half, k, by, late, bars, of_train)

    @property
    def tau(self) -> int:
        """The most steps of a query."""
        return self.features[0].phi.shape[1]

    def vectors(self) -> list[Float[Array, "T D"]]:
        """For each checkpoint, what a training row is multiplied with for each target."""
        return [np.stack([target.of(f) for target in self.targets]) for f in self.weighted]

    def columns(self) -> list[Float[Array, "C D"]]:
        """The vectors; by "late", and after them every step of every query."""
        if self.by != "late":
            return self.vectors()
        pairs = zip(self.vectors(), self.weighted, strict=True)
        return [np.concatenate([v, f.phi.reshape(-1, v.shape[1])]) for v, f in pairs]

    def keys(self, scores: Float[Array, "b C"]) -> Float[Array, "b T"]:
        """The numbers to sort by, from the products with `columns`; -inf for what is left out."""
        if self.by != "late":
            return order_keys(scores, None, self.by, self.late)
        by_step = scores[:, len(self.targets) :].reshape(len(scores), -1, self.tau)
        shares = late_mass(np.abs(by_step), self.half)[:, [target.query for target in self.targets]]
        return order_keys(scores[:, : len(self.targets)], shares, self.by, self.late)

    def train_of(self, store: Store, checkpoint: Checkpoint, ids: Sequence[str]) -> tuple[Float[Array, "n D"], Sizes]:
        """Training rows, summed over the steps asked for, and their sizes; of each of these steps, if not of all."""
        features = store.read(checkpoint.key, "train", ids)
        if self.train_steps is None:
            return features.g, sizes(features, store.dtype, whole=True)
        some = slice(self.train_steps[0] - 1, self.train_steps[1])
        found = sizes(features, store.dtype, whole=False)
        rounding = None if found.rounding is None else found.rounding[:, some]
        return features.phi[:, some].sum(axis=1), Sizes(found.values[:, some], found.squares[:, some], rounding)

    def answer(self, store: Store, target: Target, ids: Sequence[str]) -> Top:
        """The ranking of the chosen few, best first, with scores, error bars and late shares."""
        j, names = target.query, list(ids)
        scores, errors, by_step = np.zeros(len(names)), np.zeros(len(names)), np.zeros((len(names), self.tau))
        for c, f, w, e in zip(self.checkpoints, self.features, self.weighted, self.etas, strict=True) if names else ():
            rows, a = self.train_of(store, c, names)
            scores += rows @ target.of(w)
            by_step += rows @ w.phi[j].T
            error = standard_error(store.sketch, a, sizes(_one(f, j), store.dtype, whole=target.whole), e, self.bars)
            if self.train_steps is not None:
                error = error.sum(axis=1)
            errors += error[:, 0] if target.whole else error[:, 0, target.first - 1 : target.last].sum(axis=1)
        shares = late_mass(np.abs(by_step), self.half[j]) if names else np.zeros(0)
        keys = np.abs(scores) if self.by != "signed" else scores
        rows_of_top = top_rows(names, range(len(names)), scores, keys, errors, shares, self.k)
        words = target.words(self.tau)
        if self.train_steps is not None:
            words += f", training steps {self.train_steps[0]} to {self.train_steps[1]}"
        return Top(self.features[0].ids[j], words, self.by, rows_of_top)


def read_steps(store: Store, checkpoint: Checkpoint, queries: Sequence[str]) -> Features:
    """The steps of queries, where the store has them."""
    features = store.read(checkpoint.key, "query", queries)
    if not features.has_steps:
        raise ValueError(
            f"store {store.path} holds queries without steps (modes 'tracin' and 'train'); featurize with mode 'query'"
        )
    return features


def longest(store: Store, checkpoints: Sequence[Checkpoint]) -> int:
    """The most steps of a training example."""
    return max((row.tau for c in checkpoints for row in store.rows(c.key, "train").values()), default=1)


def _one(f: Features, j: int) -> Features:
    outside = None if f.outside is None else f.outside[j : j + 1]
    return Features(f.values[j : j + 1], f.tau[j : j + 1], f.blocks, f.sketch, outside, f.ids[j : j + 1])


def _padded(f: Features, tau: int) -> Features:
    """A model may take more steps at one checkpoint than at another."""
    if f.phi.shape[1] == tau:
        return f
    values = np.pad(f.phi, ((0, 0), (0, tau - f.phi.shape[1]), (0, 0)))
    return Features(values, f.tau, f.blocks, f.sketch, f.outside, f.ids, losses=f.losses)
