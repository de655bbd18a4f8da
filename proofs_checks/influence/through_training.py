"""Derivatives through training add up: over query steps, over training steps, to the derivative of the whole loss.

    sum_t d loss_j / d w_i through step t, and what is outside the loop = d loss_j / d w_i
    sum_s of the same by the weight of step s of example i, and what is outside = d loss_j / d w_i

for SGD with momentum, for Adam with clipping, and with averaged weights. Decided in float64 on a small looped
transformer: the sums against the whole to 1e-10 of the largest, and the whole against central differences of real
retraining, with weights 1 + h and 1 - h, to 1e-5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig
from sdi.result.result import Result
from sdi.retraining import retrain as retraining
from sdi.retraining.change import Change
from sdi.retraining.optimisers import SGD, Adam
from sdi.retraining.through_training import through_training
from sdi.retraining.training_run import TrainingRun

from ..machinery.statement import Verdict, statement

CONFIG = LoopedConfig(vocab=5, classes=3, d=4, heads=2, tau=3, length=3, injection="add")
UPDATES, H = 4, 1e-4
CASES: dict[str, dict[str, Any]] = {
    "momentum": {"optimiser": SGD(momentum=0.9), "rate": 0.2},
    "clipped Adam": {"optimiser": Adam(), "rate": 0.02, "clip": 0.5},
    "averaged": {"optimiser": Adam(weight_decay=0.1), "rate": 0.02, "average": 0.5},
}
Claim = Callable[..., Result]


def make_rows(ids: list[int], name: str) -> dict[str, Any]:
    import torch

    rng = np.random.default_rng([7, len(name)])
    tokens, targets = rng.integers(0, 5, (12, 3)), rng.integers(0, 3, (12, 3))
    rows = {"tokens": torch.from_numpy(tokens[ids]), "targets": torch.from_numpy(targets[ids])}
    return {"id": [f"{name}{i}" for i in ids], **rows}


@cache
def small_run(case: str) -> TrainingRun:
    fast = room("fast")
    rng = np.random.default_rng(1)
    return TrainingRun(
        model=fast.LoopedTransformer.init(CONFIG, seed=0, scale=0.5).double(),
        loss=fast.token_cross_entropy,
        loop=CONFIG.loop(),
        batches=[make_rows(rng.choice(6, 3, replace=False).tolist(), "t") for _ in range(UPDATES)],
        **CASES[case],
    )


@cache
def _truth(case: str) -> np.ndarray:
    """Central differences of real retraining, (n, q)."""
    run = small_run(case)
    changes = [Change({i: 1 + sign * H}) for i in run.ids for sign in (1, -1)]
    effects = retraining.retrain(run, [small_query()], changes)
    return (effects.whole[::2] - effects.whole[1::2]) / (2 * H)


def small_query() -> dict[str, Any]:
    return make_rows([8, 9], "query")


def _with(target: str, change: Callable[[Any], Any]) -> Claim:
    """through_training with one part of fast/training broken, and without its own audit, which would stop it."""
    place, _, name = target.rpartition(".")
    module: Any = room(f"fast.training.{place}")

    def broken(*arguments: Any, **options: Any) -> Result:
        unaudited = patch.object(room("fast.training.adjoint"), "check_products", lambda *arguments: None)
        with unaudited, patch.object(module, name, change(getattr(module, name))):
            return through_training(*arguments, **options)

    return broken


def _no_bending(products: Any) -> Any:
    """Forget how later training bends a push: no Hessian."""

    def changed(output: Any, inputs: Any, vectors: Any) -> Any:
        out = list(products(output, inputs, vectors))
        if len(inputs) == 2 and output.dim() == 1:  # the gradient, by weights and example weights
            out[0] = out[0] * 0
        return tuple(out)

    return changed


def _unclipped(clipped: Any) -> Any:
    return lambda gradient, most, sizes: gradient * (clipped(gradient, most, sizes).norm() / gradient.norm()).detach()


def _last_slot_lost(add_steps: Any) -> Any:
    def changed(pulled: Any, first: Any, rows: Any, slots: Any, *rest: Any) -> None:
        add_steps(pulled, first, rows, {t: g for t, g in slots.items() if t != max(slots)}, *rest)
        if pulled.by_slot.shape[2] <= max(slots):
            pulled.by_slot = np.pad(pulled.by_slot, ((0, 0), (0, 0), (0, 1)))

    return changed


def _query_step_lost(*arguments: Any, **options: Any) -> Result:
    result = through_training(*arguments, **options)
    if options["mode"] == "query":
        result.by_checkpoint.values[..., 0] *= 1.001
    return result


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[bool, str]]:
    for case in CASES:
        run, truth = small_run(case), _truth(case)
        size = np.abs(truth).max()
        made = {
            mode: claim(run, [small_query()], mode=mode, probes=0) for mode in ("query", "train", "matrix", "tracin")
        }
        whole = made["tracin"].sdi.values
        worst = float(np.abs(-whole - truth).max() / size)
        yield worst < 1e-5, f"{case}: the derivative differs from real retraining by {worst:.2g}"
        for mode in ("query", "train", "matrix"):
            off = float(np.abs(made[mode].tracin.values - whole).max() / size)
            yield off < 1e-10, f"{case}: the steps of mode {mode} miss the whole by {off:.2g}"
        outside = made["query"].outside.values
        yield bool(np.abs(outside).max() > 1e-6 * size), f"{case}: nothing is outside the loop, so nothing is proven"


@statement(
    "influence.through_training",
    paper="not in the paper: the derivative that TracIn approximates",
    method="float64",
    claim=through_training,
    mutants={
        "later training does not bend a push": _with("adjoint._products", _no_bending),
        "the clipped gradient's length is a constant": _with("update.clipped", _unclipped),
        "the last training step is lost": _with("adjoint._add_steps", _last_slot_lost),
        "one query step is a thousandth too large": _query_step_lost,
    },
)
def derivatives_through_training_sum_to_the_whole(claim: Claim, thorough: bool) -> Verdict:
    """Steps of the query, of the training example, and of both sum to the derivative of the loss through training."""
    return Verdict.all(_cases(claim, thorough))
