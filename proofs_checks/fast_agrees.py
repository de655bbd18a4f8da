"""The two backends agree: given the same weights, batch and sketch, the same features to rounding.

    |phi_fast - phi_reference| <= 1e-10 of the parameter's largest entry (and 1e-13 of the largest of all)

for every example, step and parameter, dense and sketched, with hooks and with recompute, with a part outside the
loop and with truncated backpropagation. The reference has a backward pass written by hand and sketches by
definition, entry by entry; the fast backend has autograd, tensor hooks and FFTs. They share nothing but the config
and the sketch's tables, so that an error in either would show. Weights in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from sdi.backends import room
from sdi.features import Features
from sdi.loop import Loop
from sdi.sketch_map import SketchMap
from sdi.sketches import TensorSketch

from .looped_models import Array, Case, cases
from .statement import Verdict, statement

M = 24


@dataclass(frozen=True)
class Job:
    """A case, its loop, a sketch or None, and the way the fast backend keeps its activations."""

    case: Case
    loop: Loop
    sketch: SketchMap | None
    memory: str


def by_reference(job: Job) -> Features:
    reference = room("reference")
    loss = reference.token_cross_entropy
    return reference.featurize(job.case.model, loss, job.case.batch, loop=job.loop, sketch=job.sketch)


def by_fast(job: Job) -> tuple[Array, Array | None]:
    """phi and what is outside. Without the self-audit: here the reference is the judge."""
    import torch

    fast, case = room("fast"), job.case
    model = fast.LoopedTransformer(case.config, case.model.weights)
    batch = {name: torch.from_numpy(array) for name, array in case.batch.items()}
    options = {"loop": job.loop, "sketch": job.sketch, "audit": "off", "memory": job.memory}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # at these sizes, threads only wait for each other
    try:
        features = fast.featurize(model, fast.token_cross_entropy, batch, **options)
    finally:
        torch.set_num_threads(threads)
    return features.phi, features.outside


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


def _jobs(thorough: bool) -> Iterator[Job]:
    for case in cases(thorough):
        loop = case.config.loop()
        if case.config.coda:  # in the body, but called after the loop
            loop = Loop(body=(*loop.body, "coda"), step=loop.step, end=loop.end)
        shapes = case.config.shapes()
        sketch = SketchMap.draw({name: shapes[name] for name in loop.select(shapes)}, m=M)
        yield Job(case, loop, None, "hooks")
        yield Job(case, loop, sketch, "hooks")
        yield Job(case, loop, sketch, "recompute")
        yield Job(case.changed(bptt=2), loop, sketch, "recompute" if thorough else "hooks")


def _holds(claim: Callable[[Job], tuple[Array, Array | None]], job: Job) -> Iterator[tuple[bool, str]]:
    truth, (phi, outside) = by_reference(job), claim(job)
    kind = f"{job.case.name}, {'dense' if job.sketch is None else f'm={M}'}, {job.memory}, bptt={job.case.config.bptt}"
    yield phi.shape == truth.phi.shape, f"{kind}: shape {phi.shape}, not {truth.phi.shape}"
    yield (outside is None) == (truth.outside is None), f"{kind}: only one backend finds a part outside the loop"
    largest = np.abs(truth.phi).max()
    for what, got, want in (("phi", phi, truth.phi), ("outside", outside, truth.outside)):
        if got is None or want is None:
            continue
        for block in truth.blocks:
            part = (..., slice(block.start, block.stop))
            error, size = np.abs(got[part] - want[part]).max(), np.abs(want[part]).max()
            close = error <= 1e-10 * size + 1e-13 * largest
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
    },
)
def backends_agree(claim: Callable[[Job], tuple[Array, Array | None]], thorough: bool) -> Verdict:
    """Sketched during backprop by the fast backend, or by definition by the reference: the same features to 1e-10."""
    return Verdict.all(held for job in _jobs(thorough) for held in _holds(claim, job))
