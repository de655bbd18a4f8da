"""The exact route: SDI and TracIn without a sketch, where step gradients of all queries would not fit.

Training gradients are held (n x D numbers); a query step is scored as its gradient arrives, against each of them: for
a matrix, the sum over tokens of delta . (G_i a), one more product of the forward pass's size per training example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sdi.errors import AuditError
from sdi.loop import Loop

from .featurizer import Featurizer
from .follow.batches import batch_tau
from .follow.one_pass import Loss, run_pass
from .follow.tracer import Tracer
from .guard.memory import OverBudget
from .sketching.sinks import Slot


class ExactScores(NamedTuple):
    """Exact scores: sdi (train, query, step), outside (train, query); of each query its steps tau, and its loss."""

    sdi: Float[np.ndarray, "n q tau"]
    outside: Float[np.ndarray, "n q"]
    tau: Int[np.ndarray, "q"]
    losses: Float[np.ndarray, "q"]

    @property
    def tracin(self) -> Float[np.ndarray, "n q"]:
        return self.sdi.sum(axis=-1) + self.outside


class Scoreboard:
    """Scores of one batch of queries, summed over parameters as they come."""

    def __init__(self, n_train: int, dtype: torch.dtype, device: torch.device) -> None:
        self.n_train, self.dtype, self.device = n_train, dtype, device
        self.sdi: Tensor | None = None
        self.outside: Tensor | None = None

    def open(self, n: int, tau: int) -> None:
        if self.sdi is None:
            self.sdi = torch.zeros(self.n_train, n, tau, dtype=self.dtype, device=self.device)
            self.outside = torch.zeros(self.n_train, n, dtype=self.dtype, device=self.device)

    def at(self, slot: Slot) -> Float[Tensor, "n_train n"]:
        assert self.sdi is not None
        assert self.outside is not None
        return self.outside if slot is None else self.sdi[:, :, slot]


class ScoreSink:
    """A sink for one parameter: adds the products of query gradients with the training gradients G to the scores."""

    def __init__(self, board: Scoreboard, G: Float[Tensor, "n_train ..."]) -> None:
        self.board, self.G = board, G

    def open(self, n: int, tau: int) -> None:
        self.board.open(n, tau)

    def outer(self, slot: Slot, u: Tensor, v: Tensor) -> None:
        u, v = u.to(self.G.dtype), v.to(self.G.dtype)
        for i, G in enumerate(self.G.flatten(2)):
            self.board.at(slot)[i] += (torch.matmul(v, G.T) * u).sum(dim=(1, 2))

    def rows(self, slot: Slot, index: Tensor, v: Tensor) -> None:
        v = v.to(self.G.dtype)
        for i, G in enumerate(self.G):
            self.board.at(slot)[i] += (G[index] * v).sum(dim=(1, 2))

    def whole(self, slot: Slot, G: Tensor) -> None:
        self.board.at(slot).add_(self.G.reshape(len(self.G), -1) @ G.to(self.G.dtype).reshape(len(G), -1).T)


def exact_scores(
    model: nn.Module,
    loss: Loss,
    train: Iterable[Any],
    query: Iterable[Any],
    *,
    loop: Loop,
    audit: str = "first",
    memory: str = "auto",
    budget: int | None = None,
) -> ExactScores:
    """Exact scores of every training example on every query, at the model's present weights, without a sketch.

    model: an `nn.Module`. loss: a function of model and batch that returns one value per example.
    train, query: iterables of batches. loop: the parameters to trace, and the module whose call begins a step.
    audit, memory, budget: as in `sdi.Settings`.
    """
    make = Featurizer(model, loss, loop=loop, steps=False, audit=audit, memory=memory, budget=budget)
    g = [torch.from_numpy(make(batch).values) for batch in train]
    if not g:
        raise ValueError("train must hold at least one batch, got none")
    G = torch.cat(g).to(make.work.device)
    by_name = {b.name: G[:, b.start : b.stop].reshape(len(G), *b.shape) for b in make.sketch.blocks}
    parts: list[tuple[Tensor, Tensor]] = []
    taus: list[np.ndarray] = []
    losses: list[np.ndarray] = []
    make.audited = 0  # queries are audited as training examples were
    for batch in query:
        if audit != "off":
            make(batch)  # one more pass for each batch: whether its losses depend on its examples alone, and the rest
        sdi, outside, tracer = _score(make, batch, by_name, len(G))
        parts.append((sdi, outside))
        taus.append(batch_tau(batch, tracer.steps_seen, tracer.n))
        losses.append(tracer.losses.double().numpy())
        _refuse_beyond(sdi, taus[-1])
        if audit != "off" and not tracer.draws:
            _compare_alone(make, batch, by_name, sdi)
    if not parts:
        raise ValueError("query must hold at least one batch, got none")
    steps = max(s.shape[2] for s, _ in parts)
    sdi = torch.cat([torch.nn.functional.pad(s, (0, steps - s.shape[2])) for s, _ in parts], dim=1)
    outside = torch.cat([o for _, o in parts], dim=1)
    return ExactScores(sdi.cpu().numpy(), outside.cpu().numpy(), np.concatenate(taus), np.concatenate(losses))


def _score(
    make: Featurizer, batch: Any, by_name: dict[str, Tensor], n_train: int, part: bool = False
) -> tuple[Float[Tensor, "n_train q tau"], Float[Tensor, "n_train q"], Tracer]:
    """The scores of one batch of queries."""
    board = Scoreboard(n_train, make.dtype, make.work.device)

    def sinks() -> dict[str, ScoreSink]:
        board.sdi = board.outside = None
        return {name: ScoreSink(board, part) for name, part in by_name.items()}

    tracer = _run(make, batch, sinks, part)
    assert board.sdi is not None
    assert board.outside is not None
    return board.sdi, board.outside, tracer


def _compare_alone(
    make: Featurizer, batch: Any, by_name: dict[str, Tensor], sdi: Float[Tensor, "n_train q tau"]
) -> None:
    """A query alone must have the scores, step by step, that it has in its batch; one is drawn for every batch."""
    n = sdi.shape[1]
    i = int(np.random.default_rng(make.batches).integers(n))
    try:
        one = make.take(batch, slice(i, i + 1), n)
    except TypeError:
        return  # a batch that cannot be cut
    if n == 1:
        return
    plan = make.plan
    alone = _score(make, one, by_name, len(sdi), part=True)[0][:, 0]
    make.plan = plan  # alone, it may call fewer modules
    steps = max(alone.shape[1], sdi.shape[2])
    mine, own = (torch.nn.functional.pad(x, (0, steps - x.shape[1])) for x in (sdi[:, i], alone))
    scale = mine.norm() + own.norm()
    if not bool((mine - own).norm() <= make.tolerance * scale):
        raise AuditError(
            f"query {i} of its batch has other scores without the others, by {float((mine - own).norm() / scale):.2g} "
            "of their size: its steps, or its loss, depend on the batch"
        )


def _refuse_beyond(sdi: Float[Tensor, "n q tau"], tau: Int[np.ndarray, "q"]) -> None:
    """Raise if a query has scores at steps beyond its tau, as `Features` does."""
    late = torch.arange(sdi.shape[2]) >= torch.from_numpy(tau)[:, None]  # (q, tau)
    found = (sdi.cpu().ne(0).any(dim=0) & late).nonzero()
    if len(found):
        j, t = found[0].tolist()
        raise ValueError(
            f"values beyond an example's tau must be zero: query {j} of its batch took {tau[j]} steps, got a gradient "
            f"at step {t + 1}"
        )


def _run(make: Featurizer, batch: Any, sinks: Callable[[], dict[str, ScoreSink]], part: bool = False) -> Tracer:
    """One pass over a query batch; with recompute if hooks go over the memory budget. The batch is not split."""
    while True:
        try:
            tracer, make.plan = run_pass(
                make.model, make.loss, batch, make.loop, make.body, make.plan, sinks, make.memory, part,
                reached=make.reached,
            )  # fmt: skip
            make.reached |= tracer.unreached
            return tracer
        except OverBudget:
            if make.memory.mode != "auto" or make.memory.recompute:
                make.memory.budget = None  # it has to run all the same
            else:
                make.memory.recompute = True
