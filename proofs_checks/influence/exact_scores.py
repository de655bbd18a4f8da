"""Scores without a sketch, taken as gradients arrive, are those of gradients written out in full.

    sdi[i, j, t] = g_i . phi_j[t]    tracin[i, j] = g_i . g_j

for `fast.exact_scores`, which never holds a query's gradient, against the reference's dense features and the products
written out; with a coda and the embedding in the body, so that something enters outside the loop and rows of a table,
matrices and vectors are all met. In float64, to 1e-10 of |g_i| |phi_j|.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig
from sdi.loop import Loop
from sdi.store.features import Features

from ..backends.fast_agrees import tensor
from ..machinery.looped_models import SIZES, Batch, make_batch, make_model
from ..machinery.statement import Verdict, statement

Array = np.ndarray
Exact = Callable[[Any, Sequence[Batch], Sequence[Batch], Loop], Any]
LOOP = Loop(body=("read_in", "inject", "core", "coda"), step="inject", end="coda")


def by_fast(model: Any, train: Sequence[Batch], query: Sequence[Batch], loop: Loop) -> Any:
    """The fast backend's, for a model of the reference."""
    fast = room("fast")
    ours = fast.LoopedTransformer(model.config, model.weights)
    batches = [[{k: tensor(v) for k, v in batch.items()} for batch in side] for side in (train, query)]
    return fast.exact_scores(ours, fast.token_cross_entropy, *batches, loop=loop, audit="off")


def _with(method: str, change: Callable[..., None]) -> Exact:
    """The fast backend's with one way to take a gradient changed; `change` is given the true one."""

    def claim(*arguments: Any) -> Any:
        sink = importlib.import_module("sdi.fast.exact").ScoreSink
        true = getattr(sink, method)
        with patch.object(sink, method, lambda *a: change(true, *a)):
            return by_fast(*arguments)

    return claim


def _matrices_larger(true: Callable[..., None], sink: Any, slot: Any, u: Any, v: Any) -> None:
    true(sink, slot, 1.01 * u, v)


def _rows_larger(true: Callable[..., None], sink: Any, slot: Any, index: Any, v: Any) -> None:
    true(sink, slot, index, 1.01 * v)


def _vectors_larger(true: Callable[..., None], sink: Any, slot: Any, G: Any) -> None:
    true(sink, slot, 1.01 * G)


def _outside_in_the_first_step(true: Callable[..., None], sink: Any, slot: Any, u: Any, v: Any) -> None:
    true(sink, slot or 0, u, v)


def _gradients(model: Any, batches: Sequence[Batch]) -> Features:
    """By the reference, dense."""
    reference = room("reference")
    return Features.concatenate(
        [
            reference.featurize(
                model,
                reference.token_cross_entropy,
                batch,
                loop=LOOP,
                ids=[f"{k}.{i}" for i in range(len(batch["tau"]))],
            )
            for k, batch in enumerate(batches)
        ]
    )


def _cases(claim: Exact, thorough: bool) -> Iterator[tuple[Any, str]]:
    for seed in range(4 if thorough else 1):
        config = LoopedConfig(**SIZES, tau=3, coda=1, injection="concat")
        model = make_model(config, seed)
        train = [make_batch(config, seed), make_batch(config, seed + 1, n=2)]
        query = [make_batch(config, seed + 2, n=2), make_batch(config, seed + 3, n=1)]
        g, of = (_gradients(model, side) for side in (train, query))
        got = claim(model, train, query, LOOP)
        size = np.linalg.norm(g.g, axis=1)[:, None] * np.linalg.norm(of.phi, axis=(1, 2))
        for what, found, wanted in (
            ("sdi", got.sdi, np.einsum("id,jtd->ijt", g.g, of.phi)),
            ("outside", got.outside, g.g @ np.asarray(of.outside).T),
            ("tracin", got.tracin, g.g @ of.g.T),
        ):
            yield found.shape == wanted.shape, f"{what} has shape {found.shape}, not {wanted.shape}"
            error = (np.abs(found - wanted).reshape(*size.shape, -1).max(-1) / size).max()
            yield error <= 1e-10, f"{what} is off by {error:.1e} of |g| |phi|"
        yield np.array_equal(got.tau, of.tau), f"tau is {got.tau}, not {of.tau}"


@statement(
    "exact_scores",
    paper="Main text, definition of SDI, full-gradient baseline",
    method="float64",
    claim=by_fast,
    mutants={
        "matrices 1 % too large": _with("outer", _matrices_larger),
        "rows of an embedding 1 % too large": _with("rows", _rows_larger),
        "vectors 1 % too large": _with("whole", _vectors_larger),
        "what is outside in the first step": _with("outer", _outside_in_the_first_step),
    },
)
def exact_scores_are_the_products(claim: Exact, thorough: bool) -> Verdict:
    """Scores taken as gradients arrive are the inner products of the reference's whole gradients."""
    return Verdict.all(_cases(claim, thorough))
