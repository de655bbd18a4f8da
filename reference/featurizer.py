"""featurize: a batch -> Features, by the definitions: dense gradients first, then the sketch of each.

`Featurizer` is `featurize` with everything but the batch given. The twin of `fast/featurizer.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sdi.loop import Loop
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features

from .batch import read_inputs
from .gradients import check_pass, gradients
from .weights import body_shapes

STEP = "inject"
AFTER_THE_LOOP = ("coda", "norm_out", "head")


def featurize(
    model: Any,
    loss: Callable[[Any, Any], Any],
    batch: Mapping[str, Any],
    *,
    loop: Loop,
    sketch: SketchMap | None = None,
    steps: bool = True,
    ids: Sequence[str] = (),
) -> Features:
    """Step gradients of the body (n, tau, D), dense or sketched; or, with steps=False, their sum (n, D).

    model: a `LoopedTransformer`. loss: `TokenCrossEntropy`, or one like it. batch: as in `reference/batch.py`.
    loop: the body, and the module whose call begins a step. sketch: one per body parameter; None keeps them whole.
    ids: a name for each example; by default they are numbered from 0.

    Body parameters that this model uses before or after its loop are in `outside`.
    """
    check_pass(model, loss)
    body = body_shapes(model, loop)
    _check_loop(loop, body)
    grads = gradients(model, loss, batch)
    sketch = SketchMap.keep(body) if sketch is None else sketch
    sketch.check_shapes(body)
    tau = read_inputs(batch, model.config).tau
    losses = np.asarray(loss(model, batch), dtype=np.float64)
    n, inside = len(tau), [name for name in body if name in grads.phi]

    phi = {name: grads.phi[name] if name in inside else np.zeros((n, tau.max(), *body[name])) for name in body}
    outside = {name: np.zeros((n, *body[name])) if name in inside else grads.outside[name] for name in body}
    if not steps:
        return Features(
            values=sketch.apply({name: phi[name].sum(axis=1) + outside[name] for name in body}),
            tau=tau,
            blocks=sketch.blocks,
            sketch=sketch.label,
            ids=tuple(ids),
            losses=losses,
        )
    return Features(
        values=sketch.apply(phi),
        tau=tau,
        blocks=sketch.blocks,
        sketch=sketch.label,
        outside=None if len(inside) == len(body) else sketch.apply(outside),
        ids=tuple(ids),
        losses=losses,
    )


class Featurizer:
    """Batches -> Features, for one model, loss and loop: `Featurizer(model, loss, loop=loop)(batch, ids)`.

    model, loss, loop, sketch, steps: as in `featurize`. audit, memory, budget: accepted as in the fast backend, and
    not used: this backend is the ground truth.
    """

    def __init__(
        self,
        model: Any,
        loss: Callable[[Any, Any], Any],
        *,
        loop: Loop,
        sketch: SketchMap | None = None,
        steps: bool = True,
        audit: str = "first",
        memory: str = "auto",
        budget: int | None = None,
    ) -> None:
        self.model, self.loss, self.loop, self.sketch, self.steps = model, loss, loop, sketch, steps

    def __call__(self, batch: Any, ids: Sequence[str] = ()) -> Features:
        return featurize(self.model, self.loss, batch, loop=self.loop, sketch=self.sketch, steps=self.steps, ids=ids)


def _check_loop(loop: Loop, body: Mapping[str, Any]) -> None:
    if not isinstance(loop.step, str) or loop.step != STEP:
        raise ValueError(f"loop.step must be {STEP!r}, the module that begins a step of this model, got {loop.step!r}")
    if loop.end is not None and loop.end not in AFTER_THE_LOOP:
        raise ValueError(f"loop.end must be one of {(None, *AFTER_THE_LOOP)} for this model, got {loop.end!r}")
    if loop.inner is not None:
        raise ValueError(
            f"loop.inner must be None for this model, which has no loop within its loop, got {loop.inner!r}"
        )
    late = [name for name in body if name.startswith(AFTER_THE_LOOP)]
    if late and loop.end != "coda":
        raise ValueError(
            f"loop.end must be 'coda' when the body holds {late[0]!r}, which is used after the loop, got {loop.end!r}: "
            "without it the last step would not end before that"
        )
