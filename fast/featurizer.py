"""featurize: step-resolved, sketched gradients of any looped `nn.Module`, taken during backprop.

`Featurizer` keeps what does not change from batch to batch (plan, tables, buffers) and audits the first one;
`featurize` is one batch through a fresh one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdi.arguments import one_of
from sdi.errors import AuditError, CoverageError
from sdi.inputs.batches import is_array, leaves, take_examples
from sdi.inputs.settings import AUDITS
from sdi.inputs.unwrap import unwrapped_model
from sdi.loop import Loop
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features

from .coverage_table import Coverage, read_coverage
from .follow.batches import batch_tau, count_examples
from .follow.body import find_body
from .follow.one_pass import Loss, run_pass
from .follow.plan import first_plan
from .guard.audit import OtherGradients, audit_again, audit_features, audit_gradients, audit_losses, tolerance_of
from .guard.memory import Memory, OverBudget
from .sketching.sinks import Accumulator, KeepSink, Tables, make_sinks
from .sketching.workspace import Workspace

ALONE = 0.002  # of the examples of later batches are run alone, too: that losses are apart is proven without


class Featurizer:
    """Batches -> Features, for one model, loss and loop: `Featurizer(model, loss, loop=loop)(batch, ids)`.

    model: an `nn.Module`; of a wrapped one (DistributedDataParallel, torch.compile) the plain model inside, with which
    `loss` is called. loss: a function of model and batch that returns one value per example.
    loop: the body, and the module whose call begins a step. sketch: one per body parameter; None keeps gradients whole.
    steps: False sums over loop steps.
    memory: "hooks" keeps the activations of the whole loop; "recompute" only the inputs of its units; "auto" takes
    hooks as long as they fit into `budget` bytes (by default half of what is free).
    audit: "first" checks the first batch against autograd and some of its examples alone, and proves of every batch
    that losses depend on their own examples alone; of one that it cannot prove it of, losses are compared with those of
    examples by themselves. Of later batches one example is run alone: in every batch of another size or number of steps
    than those before, wherever rows were found in another order, and so often that at most one example in 500 runs
    twice. "every" checks all batches like the first, "off" none. Whose rows are whose is known in every batch, whatever
    the audit.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        *,
        loop: Loop,
        sketch: SketchMap | None = None,
        steps: bool = True,
        audit: str = "first",
        memory: str = "auto",
        budget: int | None = None,
    ) -> None:
        one_of("audit", audit, AUDITS)
        model = unwrapped_model(model)
        self.model, self.loss, self.loop, self.steps, self.audit = model, loss, loop, steps, audit
        self.body = find_body(model, loop)
        self.sketch = SketchMap.keep(self.body.shapes) if sketch is None else sketch
        self.sketch.check_shapes(self.body.shapes)
        self.plan = first_plan(model, self.body)
        device = next(iter(self.body.parameters.values())).device
        self.memory = Memory(memory, budget, device)
        self.dtype = torch.float32
        for p in self.body.parameters.values():
            self.dtype = torch.promote_types(self.dtype, p.dtype)
        self.work = Workspace(device, self.memory.kernel_bytes)
        self.tables: Tables = {}
        self.dtypes = {p.dtype for p in self.body.parameters.values()}  # all that gradients came in
        self.audited = 0  # examples of the largest batch that was audited: one alone cannot show that examples mix
        self.shared: set[str] = set()  # places in batches that do not hold one row for each example
        self.reached: set[str] = set()  # parameters that got a gradient from some batch, or that none could get
        self.weigh = False  # whether every pass has to find out whose rows are whose
        self.moved: int | None = None  # an example whose rows stood elsewhere than in order, in the last pass
        self.uses: set[tuple[str, Fraction]] = set()  # in the last batch: a parameter, operations with it for each call
        self.audited_uses: set[tuple[str, Fraction]] = set()
        self.audited_names: set[str] = set()  # parameters that had a gradient in an audited batch, by this plan
        self.in_doubt = False  # whether a loss of the last batch may depend on other examples
        self.leaked = False  # whether a value that a replayed call made and did not return was used, in the last batch
        self.losses: list[np.ndarray] = []  # of the last batch, part by part
        self.draws = False  # whether the last pass drew random numbers
        self.computed_in: set[torch.dtype] = set()  # the types of numbers that operations on its examples gave
        self.batches = 0
        self.forms: set[tuple[int, int]] = set()  # examples and steps of the batches so far
        self.credit = 0.0  # examples of later batches that may be run alone
        self.coverage: Coverage | None = None

    def __call__(self, batch: Any, ids: Sequence[str] = ()) -> Features:
        before = self.plan
        features = self.features(batch, ids, prove=self.audit == "first")
        if self.plan is not before:
            self.audited_names.clear()
        moved = self._moved(features)
        if not (moved <= self.audited_names and self.uses <= self.audited_uses):
            self.audited = 0  # this way has not been looked at
        n, form = len(features.ids), (len(features.ids), int(features.tau.max()))
        if self.audit == "every" or (self.audit == "first" and self.audited < min(2, n)):
            try:
                audit_features(self, batch, features)
            except OtherGradients as error:
                features = self._enclosed(batch, ids, error)
            self.audited = n
            self.audited_uses |= self.uses
            self.audited_names |= moved
        elif self.audit == "first":
            if self.leaked:
                audit_gradients(self, batch, features)
            self.credit += ALONE * n
            if form not in self.forms or self.credit >= 1 or self.moved is not None or self.in_doubt:
                audit_again(self, batch, features, self.moved)
                self.credit = min(self.credit - 1, 1)
        if self.in_doubt:
            audit_losses(self, batch, features, np.concatenate(self.losses))
        self.forms.add(form)
        self.batches += 1
        return features

    @property
    def proven(self) -> bool:
        """Whether each loss of the last batch is proven to depend on its own example alone."""
        return self.audit == "first" and not self.in_doubt and not self.draws

    @property
    def strict(self) -> bool:
        """Whether the losses of the last batch are in doubt, and all its operations were in double precision."""
        return self.audit == "first" and self.in_doubt and self.computed_in == {torch.float64} == self.dtypes

    @property
    def tolerance(self) -> float:
        """How far two ways to the same gradients may be apart, as a share of their size."""
        return tolerance_of(self.dtypes)

    def _moved(self, features: Features) -> set[str]:
        """The parameters that had a gradient. An audit of a batch in which one had none says nothing of it."""
        if self.audit != "first" or len(self.audited_names) == len(features.blocks):
            return self.audited_names
        parts = [part for part in (features.values, features.outside) if part is not None]
        return {b.name for b in features.blocks if any(part[..., b.start : b.stop].any() for part in parts)}

    def _enclosed(self, batch: Any, ids: Sequence[str], error: OtherGradients) -> Features:
        """Try again with the modules around, where rows may not be examples; then, by name, one parameter after another
        that is used by name as well."""
        first, before, last = error, self.plan, self.plan
        try:
            for name in error.parameters:
                for unit in [unit for unit in self.plan.serving(name) if unit.native is not None]:
                    self.plan = self.plan.enclose(
                        self.model, self.body, unit, [name], "its calls do not give its gradient", error.mixed
                    )
            while True:
                if self.plan is last:
                    if error.mixed or set(error.parameters) <= set(self.plan.by_name):
                        raise error
                    self.plan = self.plan.name_too(self.model, self.body, error.parameters)
                named = set(self.plan.by_name) - set(before.by_name)
                if any((name, Fraction(1)) in self.uses for name in named):  # one operation a call: no other use
                    raise error
                try:
                    features = self.features(batch, ids)
                    audit_features(self, batch, features)
                    return features
                except OtherGradients as again:
                    error, last = again, self.plan
        except (AuditError, CoverageError):
            self.plan = before
            raise first from None

    def features(self, batch: Any, ids: Sequence[str] = (), part: bool = False, prove: bool = False) -> Features:
        """The Features of a batch, not audited. If a pass goes over the memory budget, it is run again with recompute,
        then in parts.

        ids: a name for each example. part: this is only a part of a batch, which need not reach every parameter.
        prove: find out whether losses are proven to depend on their own examples alone (if not, `in_doubt`).
        """
        ids = tuple(ids)
        while True:
            if prove:
                self.in_doubt, self.leaked, self.losses, self.uses = False, False, [], set()
                self.computed_in = set()
            n = count_examples(batch)
            rows = min(self.memory.rows or n, n)
            try:
                if rows == n:
                    return self._one_pass(batch, ids, part, prove)
                named = ids or tuple(map(str, range(n)))
                cuts = [slice(i, min(i + rows, n)) for i in range(0, n, rows)]
                parts = [self._one_pass(self.take(batch, c, n), named[c], True, prove) for c in cuts]
                return Features.concatenate(parts)
            except OverBudget:
                self.memory.tighten(n)
                self.audited = 0  # this way has not been looked at

    def alone(self, batch: Any, ids: Sequence[str] = ()) -> Features:
        """The Features of some examples taken out of a batch, not audited; the plan of routes stays as it was.

        They may call fewer modules than the batch. ids: a name for each example.
        """
        plan = self.plan
        try:
            return self.features(batch, ids, part=True)
        finally:
            self.plan = plan

    def take(self, batch: Any, rows: slice | Sequence[int], n: int) -> Any:
        """Some examples (`rows`) of a batch of n. Arrays that in some batch were not of length n are kept whole."""
        self.shared |= {path for path, x in leaves(batch) if is_array(x) and len(x) != n}
        return take_examples(batch, rows, n, self.shared)

    def weighted(self, batch: Any, weights: Float[np.ndarray, "k"]) -> Features:
        """The Features of a batch with each example's loss multiplied by a weight; weights repeat from the first."""
        loss = self.loss

        def weighted_loss(model: Any, batch: Any) -> Tensor:
            losses = loss(model, batch)
            repeated = np.resize(weights, losses.shape)
            return losses * torch.as_tensor(repeated, dtype=losses.dtype, device=losses.device)

        self.loss = weighted_loss
        try:
            return self.features(batch, part=True)
        finally:
            self.loss = loss

    def _one_pass(self, batch: Any, ids: Sequence[str], part: bool, prove: bool = False) -> Features:
        acc = Accumulator(self.sketch, self.steps, self.dtype, self.work.device)

        def sinks() -> dict[str, KeepSink]:
            acc.clear()
            return make_sinks(acc, self.work, self.tables)

        tracer, self.plan = run_pass(
            self.model,
            self.loss,
            batch,
            self.loop,
            self.body,
            self.plan,
            sinks,
            self.memory,
            part,
            ids,
            self.reached,
            self.weigh,
            prove,
        )
        if prove:
            self.in_doubt |= not (tracer.apart or tracer.draws)
            self.uses |= {(name, _for_each(uses, tracer.calls[name])) for name, uses in tracer.uses.items()}
            self.leaked |= tracer.leaked
            self.computed_in |= tracer.computed_in
            self.losses.append(tracer.losses.double().numpy())
        self.weigh |= self.memory.recompute and tracer.owners.weighed  # seen in the backward pass only: not again
        self.coverage = read_coverage(self.body, self.plan, tracer, self.sketch)
        self.dtypes |= tracer.dtypes
        self.draws = tracer.draws
        self.moved = tracer.moved
        self.reached |= {name for name, count in tracer.delivered.items() if count} | tracer.unreached
        tau = batch_tau(batch, tracer.steps_seen, tracer.n)
        values, outside = acc.finish()
        losses = tracer.losses.double().numpy()
        return Features(values, tau, self.sketch.blocks, self.sketch.label, outside, tuple(ids), losses=losses)


def _for_each(uses: int, calls: int) -> Fraction:
    return Fraction(uses, calls) if calls else Fraction(-uses)  # by name alone


def featurize(
    model: nn.Module,
    loss: Callable[[Any, Any], Any],
    batch: Mapping[str, Any],
    *,
    loop: Loop,
    sketch: SketchMap | None = None,
    steps: bool = True,
    ids: Sequence[str] = (),
    audit: str = "first",
    memory: str = "auto",
    budget: int | None = None,
) -> Features:
    """The gradients of every body parameter for every example of a batch, step by step, sketched or whole.

    model: an `nn.Module`, left as it came. loss: a function of model and batch that returns one value per example.
    batch: a batch as `loss` takes it. loop: the body, and the module whose call begins a step.
    sketch: one per body parameter (`SketchMap`); None keeps gradients whole.
    steps: False sums over loop steps. ids: a name for each example; by default they are numbered from 0.
    audit, memory, budget: as in `sdi.Settings`.
    """
    featurizer = Featurizer(
        model, loss, loop=loop, sketch=sketch, steps=steps, audit=audit, memory=memory, budget=budget
    )
    return featurizer(batch, ids)
