"""Through a real looped model: sketched steps sum to the sketch of the whole gradient, and both backends agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from sdi.backends import backend, room
from sdi.inputs.looped_config import LoopedConfig
from sdi.loop import Loop
from sdi.sketch.sketch_map import SketchMap
from sdi.validate.agreement import differ, far, row_norms
from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.looped_case import LoopedCase
from sdi.validate.sketch_under_test import Subject

SMALL = {"vocab": 3, "classes": 2, "d": 4, "heads": 1, "tau": 1, "length": 5}
LARGER = {"vocab": 5, "classes": 3, "d": 8, "heads": 2, "tau": 3, "length": 5, "injection": "concat", "loop_norm": True}
LONG = {"vocab": 3, "classes": 2, "d": 4, "heads": 1, "tau": 1, "length": 70}
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}


def cases(subject: Subject) -> Iterator[tuple[LoopedCase, SketchMap, str]]:
    """A model with one step and one example; one with ragged steps, read-outs in the middle and masked tokens; and more
    tokens and examples than a kernel may take at a time."""
    asked = subject.m if subject.m < 200 else 16
    for options, n, length, least in ((SMALL, 1, 4, 4), (LARGER, 3, 4, asked), (LONG, 11, 70, 4)):
        config = LoopedConfig(**options)
        case = LoopedCase.make(config, seed=subject.seed, n=n, length=length)
        drawn = _drawn(case, subject, (least, 2 * least, 4 * least) if options is LARGER else (least,))
        if drawn is None:
            continue
        m, sketch = drawn
        block = f"{config.core} block of width {config.d}, {n} example{'s'[: n > 1]} of {length} tokens"
        yield case, sketch, f"{block}, tau={case.tau}, m={m}"


def _drawn(case: LoopedCase, subject: Subject, widths: tuple[int, ...]) -> tuple[int, SketchMap] | None:
    """At the first width that the class does not refuse. The largest of several may not be refused."""
    for m in widths:
        try:
            return m, SketchMap.draw(case.body, m, subject.seed, sketch=subject.sketch)
        except ValueError:
            if m == widths[-1] and len(widths) > 1:
                raise
    return None


@sketch_property(
    "conserving",
    says="sketched steps of a looped model sum to the sketch of its whole gradient, on both backends",
    remedy="follows from a linear apply and a factored one that agrees with it; look at to_torch, if there is one",
    needs=("repeatable", "linear", "factored", "layout", "twin"),
)
def conserving(subject: Subject) -> Evidence:
    return first_wrong(_conserve_tries(subject), "a looped transformer, in one pass with steps and one without")


def _conserve_tries(subject: Subject) -> Iterator[Try]:
    for case, sketch, words in cases(subject):
        for name in ("reference", "fast"):
            model, batch = (case.model, case.batch) if name == "reference" else case.torch()
            loss = room(name).token_cross_entropy
            wrong = not_conserved(model, loss, batch, loop=case.loop, sketch=sketch, backend_name=name)
            yield wrong, f"{name} backend, {words}"


def not_conserved(
    model: Any,
    loss: Callable[..., Any],
    batch: Mapping[str, Any],
    *,
    loop: Loop,
    sketch: SketchMap | None = None,
    backend_name: str = "fast",
    rtol: float | None = None,
) -> str | None:
    """What is wrong with the sum of the sketched steps, if anything; the parameter is named.

    It is compared with the sketch, by definition, of the whole gradient, which fast/ has checked against autograd.
    """
    featurize: Any = backend(backend_name).featurize
    no_audit = {"audit": "off"} if backend_name == "fast" else {}  # what follows is one
    stepwise = featurize(model, loss, batch, loop=loop, sketch=sketch, **no_audit)
    dense = featurize(model, loss, batch, loop=loop, steps=False)
    whole = {b.name: dense.g[:, b.start : b.stop].astype(np.float64).reshape(-1, *b.shape) for b in dense.blocks}
    sketch = SketchMap.keep({b.name: b.shape for b in dense.blocks}) if sketch is None else sketch
    wanted, got = sketch.apply(whole), stepwise.g
    rtol = TOLERANCE[str(stepwise.values.dtype)] if rtol is None else rtol
    size = row_norms(stepwise.values) + row_norms(wanted)
    for block in stepwise.blocks:
        columns = slice(block.start, block.stop)
        wrong = far(got[:, columns], wanted[:, columns], size, f"steps of {block.name!r} and its whole gradient", rtol)
        if wrong is not None:
            return wrong
    return None


@sketch_property(
    "backends",
    says="the fast backend gives the numbers of the reference, in float64 and float32, on every device here",
    remedy="the reference calls apply, the fast backend to_torch where it exists; compare the two on one array",
    needs=("repeatable", "linear", "factored", "layout", "dtypes", "twin"),
)
def backends_agree(subject: Subject) -> Evidence:
    return first_wrong(_agree_tries(subject), f"float64 and float32 on {', '.join(devices())}")


def _agree_tries(subject: Subject) -> Iterator[Try]:
    for case, sketch, words in cases(subject):
        for device in devices():
            for dtype in TOLERANCE:
                yield disagreement(case, sketch, dtype, device), f"{dtype} on {device}, {words}"


def disagreement(
    case: LoopedCase, sketch: SketchMap | None, dtype: str = "float64", device: str = "cpu", rtol: float | None = None
) -> str | None:
    """Where the fast backend's features differ from the reference's, if anywhere."""
    model, batch = case.torch(dtype, device)
    fast, slow = room("fast"), room("reference")
    ours = fast.featurize(model, fast.token_cross_entropy, batch, loop=case.loop, sketch=sketch, audit="off")
    theirs = slow.featurize(case.model, slow.token_cross_entropy, case.batch, loop=case.loop, sketch=sketch)
    return differ(ours, theirs, TOLERANCE[dtype] if rtol is None else rtol)


def devices() -> tuple[str, ...]:
    import torch

    return ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
