"""The contenders that are timed in this process, each a function of a batch.

    forward    inference: the forward pass alone, without a graph
    plain      forward and backward, all parameter gradients, `.grad` starting from None
    floor      parameters frozen, no sketch: forward, and gradients back to the loop's first output
    hooks      ours, step-resolved, memory="hooks"
    recompute  ours, step-resolved, memory="recompute"
    summed     ours, steps=False: the training side
    dense      ours without a sketch: phi itself, (n, tau, D), as the paper's full-gradient baseline holds it
    proven     as hooks, with audit="first": a later batch, of which no example is run alone
    alone      one example of the batch by itself, as audits run it

Audits are off but for the last two, and a Featurizer is made once and kept, as it is over the batches of a loader.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig
from sdi.sketch.sketch_map import SketchMap

from .cases import Batch

Run = Callable[[Batch], object]
OURS: dict[str, dict[str, Any]] = {
    "hooks": {"memory": "hooks"},
    "recompute": {"memory": "recompute"},
    "summed": {"memory": "hooks", "steps": False},
}
NAMES = ("forward", "plain", "floor", *OURS, "dense", "proven", "alone")
SAYS = {
    "forward": "inference: forward only",
    "plain": "plain forward+backward",
    "floor": "floor: frozen, no sketch",
    "hooks": "ours, hooks",
    "recompute": "ours, recompute",
    "summed": "ours, summed over steps",
    "dense": "dense phi, no sketch",
    "proven": "ours, hooks, every batch proven",
    "alone": "ours, hooks, one example alone",
    "scores": "SDI and TracIn from features",
}


def contender(name: str, model: Any, config: LoopedConfig, sketch: SketchMap) -> Run:
    """One of NAMES, ready to run."""
    loss = room("fast").token_cross_entropy
    if name == "forward":
        return lambda batch: forward_only(model, batch)
    if name == "plain":
        return lambda batch: loss(model, batch).sum().backward()
    if name == "floor":
        return lambda batch: _forward_and_input_gradients(model, loss, batch)
    if name not in NAMES:
        raise ValueError(f"contender must be one of {NAMES}, got {name!r}")
    if name in ("proven", "alone"):
        return _audited(name, room("fast").Featurizer(model, loss, loop=config.loop(), sketch=sketch, memory="hooks"))
    options = OURS.get(name, {"memory": "hooks"})
    run: Run = room("fast").Featurizer(
        model, loss, loop=config.loop(), sketch=None if name == "dense" else sketch, audit="off", **options
    )
    return run


def _audited(name: str, featurizer: Any) -> Run:
    """What audit="first" adds to a later batch, in its two parts. The first batch, which is audited whole, is past."""

    def proven(batch: Batch) -> None:
        featurizer.credit = -math.inf  # no example alone
        featurizer(batch)

    def alone(batch: Batch) -> None:
        featurizer.alone(featurizer.take(batch, [0], len(batch["tokens"])))

    return proven if name == "proven" else alone


def forward_only(model: Any, batch: Batch) -> None:
    with torch.inference_mode():
        model(batch)


def _forward_and_input_gradients(model: Any, loss: Callable[[Any, Batch], Tensor], batch: Batch) -> None:
    leaves: list[Tensor] = []

    def begin(module: nn.Module, args: Any, output: Tensor) -> Tensor | None:
        if leaves:
            return None
        leaves.append(output.detach().requires_grad_())
        return leaves[0]

    flags = [(p, p.requires_grad) for p in model.parameters()]
    handle = model.inject.register_forward_hook(begin)
    try:
        model.requires_grad_(False)
        torch.autograd.grad(loss(model, batch).sum(), leaves)
    finally:
        handle.remove()
        for p, flag in flags:
            p.requires_grad_(flag)


def seconds(run: Run, model: Any, batch: Batch) -> float:
    """The seconds of one run. Gradients are dropped before and after it, outside the clock."""
    model.zero_grad(set_to_none=True)
    start = perf_counter()
    run(batch)
    elapsed = perf_counter() - start
    model.zero_grad(set_to_none=True)
    return elapsed
