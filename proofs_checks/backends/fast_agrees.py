"""The two backends agree: given the same weights, batch and sketch, the same features to rounding.

    |phi_fast - phi_reference| <= 1e-10 of the parameter's largest entry (and 1e-13 of the largest of all)

for every example, step and parameter, dense and sketched, at even and at odd m, with hooks and with recompute, with a
part outside the loop and with truncated backpropagation; and for 130 tokens with the embedding in the body, by every
sketch that ships, as the backend would choose and by every kernel that `kernels_agree` has looked at, whichever it
would choose: in float64, in float32 to 1e-4, and summed over steps.

The reference has a backward pass written by hand and sketches by definition, entry by entry; the fast backend has
autograd, tensor hooks and FFTs. They share nothing but the config and the sketch's tables, so that an error in either
would show.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig
from sdi.loop import Loop
from sdi.run.one_thread import one_thread
from sdi.sketch.load import SHIPPED
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features

from ..machinery.looped_models import Array, Case, cases, make_batch, make_model
from ..machinery.statement import Verdict, statement

EVEN, ODD = 24, 15
TOKENS = 130
NARROW = {"even": 6, "odd": 5, "odd, no compiled transform": 7}  # so narrow that vectors are sketched, too
TOLERANCE = {"float64": (1e-10, 1e-13), "float32": (1e-4, 1e-5)}  # of the parameter's largest entry, of all


@dataclass(frozen=True)
class Job:
    """A case, its loop, a sketch or None, the way the fast backend keeps its activations, and its kernels."""

    case: Case
    loop: Loop
    sketch: SketchMap | None
    memory: str
    kernel: str = ""  # "compiled" or "torch"; empty: as the backend would choose
    route: str = ""  # "fft" or "gemm"
    dtype: str = "float64"
    steps: bool = True  # or summed over them

    @property
    def name(self) -> str:
        width = "dense" if self.sketch is None else f"sketched ({self.sketch.label})"
        forced = f", {self.route} by {self.kernel}, {self.dtype}" if self.route else ""
        summed = "" if self.steps else ", summed over steps"
        return f"{self.case.name}, {width}, {self.memory}, bptt={self.case.config.bptt}{forced}{summed}"


def kernels() -> tuple[str, ...]:
    """What can run here: compiled code, if it was built, and PyTorch."""
    return (
        ("compiled", "torch")
        if importlib.import_module("sdi.fast.sketching.compiled").library() is not None
        else ("torch",)
    )


def tensor(array: Array, dtype: str = "") -> Any:
    """The array for the fast backend, in its own precision or another."""
    import torch

    made = torch.from_numpy(array)
    return made.to(getattr(torch, dtype)) if dtype else made


@contextmanager
def forced(kernel: str, route: str) -> Iterator[None]:
    """The fast backend with one kernel and one route for every matrix, if they are named."""
    native, plain = (importlib.import_module(f"sdi.fast.sketching.{name}") for name in ("compiled", "tensor_sketch"))
    compiled = native.library() if kernel != "torch" else None
    choose = plain.TorchTensorSketch.route
    with (
        patch.object(native, "library", lambda: compiled),
        patch.object(plain.TorchTensorSketch, "route", lambda self, tokens: route or choose(self, tokens)),
    ):
        yield


def by_reference(job: Job) -> Features:
    reference = room("reference")
    loss = reference.token_cross_entropy
    options = {"loop": job.loop, "sketch": job.sketch, "steps": job.steps}
    return reference.featurize(job.case.model, loss, job.case.batch, **options)


def by_fast(job: Job) -> tuple[Array, Array | None]:
    """phi, or its sum over steps, and what is outside. Without the self-audit: here the reference is the judge."""
    fast, case = room("fast"), job.case
    weights = {name: array.astype(job.dtype) for name, array in case.model.weights.items()}
    model = fast.LoopedTransformer(case.config, weights)
    batch = {name: tensor(array) for name, array in case.batch.items()}
    options = {"loop": job.loop, "sketch": job.sketch, "audit": "off", "memory": job.memory, "steps": job.steps}
    with one_thread(), forced(job.kernel, job.route):
        features = fast.featurize(model, fast.token_cross_entropy, batch, **options)
    return features.values, features.outside


def _reversed(job: Job) -> tuple[Array, Array | None]:
    phi, outside = by_fast(job)
    return phi[:, ::-1], outside


def _another_seed(job: Job) -> tuple[Array, Array | None]:
    """The first matrix's sketch drawn anew."""
    if job.sketch is None:
        return by_fast(job)
    name, old = next((n, s) for n, s in job.sketch.sketches.items() if isinstance(s, TensorSketch))
    other = {**job.sketch.sketches, name: TensorSketch.draw(old.shape, old.m, seed=1, name=name)}
    return by_fast(replace(job, sketch=SketchMap(other, job.sketch.shapes)))


def _outside_in_the_last_step(job: Job) -> tuple[Array, Array | None]:
    phi, outside = by_fast(job)
    if outside is None:
        return phi, outside
    folded = phi.copy()
    folded[np.arange(len(phi)), job.case.batch["tau"] - 1] += outside
    return folded, np.zeros_like(outside)


def _vectors_larger(job: Job) -> tuple[Array, Array | None]:
    """Sketches of vectors 1 % too large."""
    phi, outside = by_fast(job)
    phi = phi.copy()
    if job.sketch is not None:
        for block in job.sketch.blocks:
            if isinstance(job.sketch.sketches[block.name], CountSketch):
                phi[..., block.start : block.stop] *= 1.01
    return phi, outside


def _sums_larger(job: Job) -> tuple[Array, Array | None]:
    phi, outside = by_fast(job)
    return (phi if job.steps else 1.01 * phi), outside


def _64_tokens(module: str, name: str) -> Callable[[Job], tuple[Array, Array | None]]:
    """The dispatcher of a class of kernels forgets what is beyond the 64th token."""

    def claim(job: Job) -> tuple[Array, Array | None]:
        owner = getattr(importlib.import_module(f"sdi.fast.sketching.{module}"), name)
        true = owner.add_outer
        with patch.object(owner, "add_outer", lambda s, acc, u, v, w: true(s, acc, u[:, :64], v[:, :64], w)):
            return by_fast(job)

    return claim


def _larger_at_odd_m(job: Job) -> tuple[Array, Array | None]:
    phi, outside = by_fast(job)
    odd = job.sketch is not None and any(s.size % 2 for s in job.sketch.sketches.values())
    return (1.01 * phi if odd else phi), outside


def _float32_loses_a_token(job: Job) -> tuple[Array, Array | None]:
    """The last token never trains in single precision."""
    if job.dtype == "float64":
        return by_fast(job)
    mask = job.case.batch["mask"].copy()
    mask[:, -1] = False
    return by_fast(replace(job, case=replace(job.case, batch={**job.case.batch, "mask": mask})))


def _jobs(thorough: bool) -> Iterator[Job]:
    for case in cases(thorough):
        loop = case.config.loop()
        if case.config.coda:  # in the body, but called after the loop
            loop = Loop(body=(*loop.body, "coda"), step=loop.step, end=loop.end)
        even, odd = (_drawn(case.config, loop, m) for m in (EVEN, ODD))
        yield Job(case, loop, None, "hooks")
        yield Job(case, loop, even, "hooks")
        yield Job(case, loop, odd, "recompute")
        yield Job(case.changed(bptt=2), loop, odd, "recompute" if thorough else "hooks")
    config = LoopedConfig(vocab=9, classes=4, d=4, heads=2, length=TOKENS, tau=2)
    case = Case(f"{TOKENS} tokens", make_model(config, 0), make_batch(config, 0, length=TOKENS))
    loop = Loop(body=("read_in", "core"), step="inject", end="coda")
    yield Job(case, loop, None, "hooks")
    for m in NARROW.values():
        sketch = _drawn(config, loop, m)
        yield Job(case, loop, sketch, "hooks")
        yield Job(case, loop, sketch, "hooks", steps=False)
    for kind in SHIPPED:
        yield Job(case, loop, _drawn(config, loop, NARROW["odd"], kind), "hooks")
    for (kernel, route), dtype in product(product(kernels(), ("fft", "gemm")), TOLERANCE):
        yield Job(case, loop, _drawn(config, loop, NARROW["even"]), "hooks", kernel, route, dtype)
        yield Job(case, loop, _drawn(config, loop, NARROW["odd"]), "hooks", kernel, route, dtype)
    for kernel, route in product(kernels(), ("fft", "gemm")):
        yield Job(case, loop, _drawn(config, loop, NARROW["odd"]), "hooks", kernel, route, steps=False)


def _drawn(config: LoopedConfig, loop: Loop, m: int, kind: str = "tensor") -> SketchMap:
    shapes = config.shapes()
    return SketchMap.draw({name: shapes[name] for name in loop.select(shapes)}, m=m, sketch=kind)


@cache
def _truths(thorough: bool) -> dict[tuple[Any, ...], Features]:
    """What the reference answered so far: once for all kernels, precisions and claims."""
    return {}


def _cases(claim: Callable[[Job], tuple[Array, Array | None]], thorough: bool) -> Iterator[tuple[bool, str]]:
    truths = _truths(thorough)
    for job in _jobs(thorough):
        key = (job.case.name, job.case.config.bptt, job.sketch and job.sketch.identity, job.steps)
        if key not in truths:
            truths[key] = by_reference(job)
        yield from _holds(job, truths[key], *claim(job))


def _holds(job: Job, truth: Features, phi: Array, outside: Array | None) -> Iterator[tuple[bool, str]]:
    kind = job.name
    relative, absolute = TOLERANCE[job.dtype]
    yield phi.shape == truth.values.shape, f"{kind}: shape {phi.shape}, not {truth.values.shape}"
    yield (outside is None) == (truth.outside is None), f"{kind}: only one backend finds a part outside the loop"
    largest = np.abs(truth.values).max()
    for what, got, want in (("phi", phi, truth.values), ("outside", outside, truth.outside)):
        if got is None or want is None:
            continue
        for block in truth.blocks:
            part = (..., slice(block.start, block.stop))
            error, size = np.abs(got[part] - want[part]).max(), np.abs(want[part]).max()
            close = error <= relative * size + absolute * largest
            yield bool(close), f"{kind}: {what} of {block.name} differs by {error:.1e} of {size:.1e}"


@statement(
    "backends.agree",
    paper="Main text, algorithm",
    method="float64",
    claim=by_fast,
    mutants={
        "steps in the order of the backward pass": _reversed,
        "one parameter sketched with another seed": _another_seed,
        "the part outside folded into the last step": _outside_in_the_last_step,
        "sketched vectors 1 % too large": _vectors_larger,
        "sums over steps 1 % too large": _sums_larger,
        "single precision loses the last token": _float32_loses_a_token,
        "tokens from the 65th on ignored by the dispatcher": _64_tokens("tensor_sketch", "TorchTensorSketch"),
        "tokens from the 65th on ignored for other sketches": _64_tokens("device_sketch", "TorchSketch"),
        "sketches of odd m 1 % too large": _larger_at_odd_m,
    },
)
def backends_agree(claim: Callable[[Job], tuple[Array, Array | None]], thorough: bool) -> Verdict:
    """Sketched during backprop by the fast backend, or by definition by the reference: the same features to 1e-10."""
    return Verdict.all(_cases(claim, thorough))
