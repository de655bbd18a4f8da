"""One pass over one batch: forward, backward, and every body parameter's gradient handed to its sink.

Parameters are frozen, so no weight gradient is ever formed: forward plus input gradients is two thirds of an ordinary
training step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from sdi.errors import AuditError, CoverageError, NonFiniteError
from sdi.loop import Loop

from ..guard.checkpointing import graph_keeping_checkpoints, no_checkpoints
from ..guard.memory import Memory
from ..guard.random_and_autocast import RandomState
from ..guard.restore_attributes import attributes_put_back
from ..guard.restore_model import unharmed
from ..rows.owners import NeedsWeighing, loss_weights
from ..rows.plain_linear import PlainLinear
from ..rows.value_proof import ValueProof
from ..sketching.sinks import Sink
from .batches import count_examples
from .body import Body
from .by_name import ByName, NeedsEachAlone
from .deliver import NO_ROWS
from .plan import BY_NAME, NeedsEnclosing, NeedsGraph, Plan
from .recompute import recomputing
from .tracer import Tracer

Loss = Callable[[Any, Any], Tensor]
NEVER_CALLED = "its module was never called, or by .forward(...), which no hook sees"
NO_STEP = (
    "the step module was never called by loss(model, batch); Loop(step=...) must name one that is, and that is not "
    "called by its .forward(...), which no hook sees: call the module itself"
)
MIXED = (
    "rows of a call of {!r} follow the losses of more than one of the {} examples: the model or the loss mixes "
    "examples (batch statistics, a mean over the batch), so an example's own gradient is not defined; or all examples "
    "share what this call gives"
)


def run_pass(
    model: nn.Module,
    loss: Loss,
    batch: Any,
    loop: Loop,
    body: Body,
    plan: Plan,
    make_sinks: Callable[[], Mapping[str, Sink]],
    memory: Memory,
    part: bool = False,
    ids: Sequence[str] = (),
    reached: Set[str] = frozenset(),
    weigh: bool = False,
    prove: bool = False,
) -> tuple[Tracer, Plan]:
    """Run the loss forward and back. The plan may change on the way: it comes back, to be kept for the next batch.

    prove: find out whether each loss depends on its own example alone (`tracer.apart`).

    A body parameter that no gradient reaches, in a whole batch, and that was not `reached` by another one (a loop of
    sampled depth, or experts, may leave some out), must be out of reach for autograd, too: then its gradient is zero,
    and `tracer.unreached` names it. Errors name examples by `ids`.
    """
    if torch.is_inference_mode_enabled():
        raise RuntimeError("gradients cannot be taken under torch.inference_mode(); call featurize outside of it")
    with unharmed(model), graph_keeping_checkpoints():
        random = RandomState()
        idle: set[str] = set()  # parameters whose modules this batch does not call
        unreached: set[str] = set()
        each_alone = False  # whether what is used by name takes a backward pass for each example
        first, modules = plan, list(model.modules())
        while True:
            random.restore()
            memory.arena.clear()
            arena = None if memory.recompute else memory.arena  # which takes memory to save time
            tracer = Tracer(model, body, plan, make_sinks(), memory.meter(count_examples(batch)), arena)
            units = recomputing(model, loop, body, tracer, memory.graph_kept) if memory.recompute else nullcontext()
            own = no_checkpoints() if memory.recompute else nullcontext()  # a unit's second run would be a third
            named = {name: body.parameters[name] for name in plan.by_name}
            try:
                with attributes_put_back(modules), tracer.attached(), own, units:
                    tracer.by_name = ByName(named, tracer, each_alone) if named else None
                    _forward_and_back(model, loss, batch, tracer, part, idle, ids, weigh, prove, reached)
            except NeedsWeighing:  # under recompute, some rows are first seen in the backward pass
                weigh = True
                continue
            except NeedsGraph as error:
                memory.graph_kept.append(error.module)
                continue
            except NeedsEachAlone:
                each_alone = True
                continue
            except NeedsEnclosing as error:
                try:
                    plan = plan.enclose(model, body, error.unit, error.parameters, error.why, error.mixed)
                except CoverageError as failure:
                    if tracer.owners.weighed and error.why == NO_ROWS.format(tracer.n):
                        raise AuditError(MIXED.format(error.unit.name, tracer.n)) from failure
                    lost = set(error.parameters)
                    if error.why != NEVER_CALLED:
                        raise
                    if not (part or reached >= lost):
                        if unreached | lost >= set(body.parameters) or reaches(model, loss, batch, body, lost):
                            raise
                        unreached |= lost
                    idle |= lost
                    plan = first  # on the way out, modules around were tried, which are never called either
                continue
            tracer.draws = random.has_moved()
            if not part:
                silent = {n for n in body.parameters if not tracer.delivered[n]} - reached - unreached
                if silent and (silent >= set(body.parameters) or reaches(model, loss, batch, body, silent)):
                    _refuse_silent(tracer, body, silent)
                unreached |= silent
            tracer.unreached = unreached
            return tracer, plan


def _forward_and_back(
    model: nn.Module,
    loss: Loss,
    batch: Any,
    tracer: Tracer,
    part: bool,
    idle: set[str],
    ids: Sequence[str],
    weigh: bool,
    prove: bool,
    reached: Set[str],
) -> None:
    proof = ValueProof(batch, count_examples(batch), tracer.body.parameters) if prove else None
    tracer.proof, tracer.linear = proof, PlainLinear(proof) if proof else None
    named = tracer.by_name
    watching = proof.watching() if proof else nullcontext()
    with torch.enable_grad(), tracer.meter.watching(), watching, tracer.linear or nullcontext(), named or nullcontext():
        losses = loss(model, batch)
    if named:
        named.end_forward()
    n, tracer.proof, tracer.linear = _examples(losses), None, None
    if ids and len(ids) != n:
        raise ValueError(
            f"ids must name each of the {n} examples, got {len(ids)}; if they come from the batch, the loss must give "
            "one value for each of its rows: examples must be the first axis of a batch's arrays; turn sequence-first "
            "data around in the loader, and back in the loss"
        )
    tracer.leaked = proof is not None and proof.leaked
    tracer.losses = losses.detach().cpu()  # the one time that the host waits for the forward pass
    tracer.computed_in = {dtype for dtype in proof.dtypes if dtype.is_floating_point} if proof else set()
    tracer.uses = proof.uses if proof else Counter()
    tracer.apart = n == 1 or (proof is not None and proof.n == n and proof.keeps_apart(losses))
    if tracer.steps_seen == 0 and not part:
        raise ValueError(NO_STEP)
    for name in tracer.body.parameters:
        unused = proof is not None and not tracer.uses[name] and name in reached  # in this batch, by any operation
        if not tracer.calls[name] and name not in idle and not unused:
            raise NeedsEnclosing(tracer.plan.serving(name)[0], NEVER_CALLED, [name])
    called = [name for name in tracer.body.parameters if tracer.calls[name]]
    if not part and called and all(tracer.outside_calls[name] == tracer.calls[name] for name in called):
        raise CoverageError(
            f"no call of a body module lies within one of the {tracer.steps_seen} steps: all come before the first "
            "call of the step module, or after the end module; Loop(step=...) must name a module that is called "
            "before the body in every step"
        )
    if not part:
        _refuse_late_step(tracer)
    bad = (~torch.isfinite(tracer.losses)).nonzero()
    if len(bad):
        i = int(bad[0])
        value, which = tracer.losses[i].item(), repr(ids[i]) if i < len(ids) else i
        raise NonFiniteError(f"the loss of example {which} is {value}; check its input and the model's weights")
    if not losses.requires_grad and not part and not reached:
        raise CoverageError("the loss does not depend on the body: no gradient reaches any of its modules")
    tracer.begin(n)
    if losses.requires_grad:
        root = tracer.watch(losses)
        leaves, _ = tracer.rows.follow([(root, 1)])
        if weigh or tracer.in_doubt:
            tracer.owners.weighing = True
            torch.autograd.grad(root, leaves, loss_weights(n).to(losses), retain_graph=True, allow_unused=True)
            tracer.owners.weighing, tracer.owners.weighed = False, True
        with named.backward() if named else nullcontext():
            if named:
                named.begin(losses)
            totals = torch.autograd.grad(root, leaves, torch.ones_like(losses), allow_unused=True)
            if named:
                named.finish(leaves, totals)
        tracer.second_outputs.check()


def _refuse_late_step(tracer: Tracer) -> None:
    """A module that is called once before the first step, and once in every step but the last, begins the steps."""
    steps = tracer.steps_seen
    for unit in tracer.plan.units:
        if unit.route == BY_NAME:
            _refuse_late_use(tracer, unit.parameters)
            continue
        name = unit.parameters[0]
        early = tracer.early_calls[name]
        if steps > 1 and early == tracer.outside_calls[name] == 1 and tracer.calls[name] == steps:
            raise CoverageError(
                f"body module {unit.name!r} is called {steps} times, as often as the step module, but always before "
                f"it: each of its calls would count for the step before, the first for none; did you mean "
                f"step={unit.name!r}?"
            )


def _refuse_late_use(tracer: Tracer, names: Sequence[str]) -> None:
    """A parameter that is used by name as often as that belongs to the step that begins after it."""
    steps = tracer.steps_seen
    for name in names:
        early = tracer.early_calls[name]
        if steps > 1 and early and early == tracer.outside_calls[name] and tracer.calls[name] == early * steps:
            raise CoverageError(
                f"body parameter {name!r} is used by name {tracer.calls[name]} times in {steps} steps, but always "
                "before the call that begins a step: each use would count for the step before, the first for none; let "
                "the state pass through an nn.Identity at the beginning of each step, and name that as step=, or leave "
                "the parameter out of Loop(body=...)"
            )


def _examples(losses: Any) -> int:
    if not isinstance(losses, Tensor):
        raise TypeError(f"loss must return a tensor with one value per example, got {type(losses).__name__}")
    if losses.shape == (0,):
        raise ValueError(
            "a batch must hold at least one example, got one with none (a loss of shape (0,)); leave it out"
        )
    if losses.dim() != 1:
        raise ValueError(
            f"loss must return one value per example: expected shape (n,), got {tuple(losses.shape)}; use "
            "reduction='none' and average over the tokens of each example; for a query of each token, see "
            "sdi.lm.per_token, where k tokens cost what k examples cost"
        )
    return len(losses)


def _refuse_silent(tracer: Tracer, body: Body, silent: Set[str]) -> None:
    name = next(name for name in body.parameters if name in silent)
    modules = ", ".join(repr(unit.name) for unit in tracer.plan.serving(name))
    raise CoverageError(
        f"body parameter {name!r} {tuple(body.parameters[name].shape)} got no gradient at any step: no loss depends on "
        f"it through the {tracer.calls[name]} calls of {modules}; leave it out of Loop(body=...), or, if only some "
        "examples use it, put one of them into the first batch"
    )


def reaches(model: nn.Module, loss: Loss, batch: Any, body: Body, names: Set[str]) -> bool:
    """Whether autograd's own gradient of the losses, weighted at random, reaches one of these frozen parameters."""
    parameters = [p for name, p in body.parameters.items() if name in names]
    try:
        for p in parameters:
            p.requires_grad_(True)
        with torch.enable_grad():
            losses = loss(model, batch)
            if not losses.requires_grad:
                return False
            found = torch.autograd.grad(losses @ loss_weights(len(losses)).to(losses), parameters, allow_unused=True)
    finally:
        for p in parameters:
            p.requires_grad_(False)
    return any(g is not None and bool(g.any()) for g in found)
