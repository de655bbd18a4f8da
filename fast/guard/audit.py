"""The self-audit: three ways in which a run's numbers could be wrong, looked for on the run's own data.

1. Sketched steps, summed, against the sketch of autograd's own gradient, parameter by parameter.
2. Each example's loss times a power of two of its own: its features must follow, exactly, and no others. A model that
   mixes examples, or has them on another axis or in another order, fails.
3. Some examples alone against themselves in their batch: a loss divided by the size of the batch fails, and so does a
   number of steps that the batch decides. Wherever it is not proven that losses depend on their own examples alone,
   their values are asked for without the others, in every batch. A model that draws random numbers, a first state for
   instance, is not asked; in training mode, where it may be dropout, it fails.

Under recompute, autograd's graph of a whole batch may not fit: 1 looks at two of its examples at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float

from sdi.errors import AuditError
from sdi.inputs.batches import is_array, leaves
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features

from ..sketching.sinks import Accumulator, Tables, make_sinks
from ..sketching.workspace import Workspace
from .checkpointing import graph_keeping_checkpoints
from .memory import Memory
from .random_and_autocast import RandomState
from .restore_model import unharmed

# Relative to the norms of what is summed. Rounding is at most a few thousand eps at the sizes that run; a missed call,
# a wrong pairing or a mixed batch is off by percents. Beside it, ROUNDING eps of the whole gradient are allowed: some
# parameters' gradients cancel to nothing but rounding (the bias of attention's keys).
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 0.05, torch.float16: 0.01}
ROUNDING = {torch.bfloat16: 1, torch.float16: 4}  # 32 otherwise
# Times a power of two, everything is exact, but for numbers of half precision that become too small.
PROPORTION = {torch.float64: 1e-6, torch.float16: 0.1}  # 1e-3 otherwise
# Of a batch whose losses are not proven apart, where all was computed in double precision: a mixed batch of examples
# that hardly differ is off by little.
IN_DOUBT = 1e-9
WEIGHTS = 2.0 ** np.array([0, 2, -1, 1, -2, 3, -3, 4])  # exact in every type, and not too far apart for half precision
MANY = 2  # examples looked at together under recompute
SINGLE = 8  # examples of an audited batch that are run alone
SINGLE_PROVEN = 2  # of one whose losses are proven to depend on their own examples alone: only sizes may still matter
GROUPS = 8  # that a batch is run in, forward only, where its losses may depend on one another
SAME_LOSS = {torch.float64: 1e-9, torch.bfloat16: 0.01, torch.float16: 2e-3}  # 1e-4 otherwise, as a share


class Audited(Protocol):
    """What an audit asks of a Featurizer: what it works with, and three other ways to the same features."""

    model: Any
    loss: Any
    body: Any
    sketch: SketchMap
    dtype: torch.dtype
    dtypes: set[torch.dtype]  # all that gradients came in
    memory: Memory
    work: Workspace
    tables: Tables
    batches: int  # so far
    draws: bool  # whether the last pass drew random numbers
    shared: set[str]  # places in batches that do not hold one row for each example

    @property
    def proven(self) -> bool:
        """Whether each loss of the last batch is proven to depend on its own example alone."""

    @property
    def strict(self) -> bool:
        """Whether the losses of the last batch are in doubt, and all its operations were in double precision."""

    def weighted(self, batch: Any, weights: Float[np.ndarray, "k"]) -> Features: ...

    def alone(self, batch: Any, ids: Sequence[str] = ()) -> Features: ...

    def take(self, batch: Any, rows: slice | Sequence[int], n: int) -> Any: ...


class OtherGradients(AuditError):
    """The calls of some parameters' modules do not give their gradients, example by example."""

    parameters: tuple[str, ...] = ()
    mixed = False  # whether the model or the loss seems to mix examples


def audit_features(featurizer: Audited, batch: Any, features: Features) -> None:
    """Raise AuditError, naming the parameter or the example, if the features are not what autograd says."""
    tolerance = tolerance_of(featurizer.dtypes)
    n = len(features.ids)
    draws = audit_gradients(featurizer, batch, features)
    if n > 1:
        _own_losses(featurizer, batch, features, IN_DOUBT if featurizer.strict else _proportion(featurizer))
    if draws and any(module.training for module in featurizer.model.modules()):
        raise AuditError(
            "the loss draws random numbers, as dropout does, and the model is in training mode: an example's gradient "
            "would depend on its place in the data; call model.eval() first"
        )
    if n > 1 and not draws:
        # One example that is as slow as the batch would not show that the batch decides how many steps are taken.
        for i in _some(featurizer, n, SINGLE_PROVEN if featurizer.proven else SINGLE):
            _alone(featurizer, batch, features, i, IN_DOUBT if featurizer.strict else tolerance)


def audit_gradients(featurizer: Audited, batch: Any, features: Features) -> bool:
    """Compare with autograd's own gradient; under recompute, of MANY examples at a time.

    Returns whether the loss draws random numbers.
    """
    tolerance, n = tolerance_of(featurizer.dtypes), len(features.ids)
    if not featurizer.memory.recompute or n <= MANY:
        return _against_autograd(featurizer, batch, features, tolerance)
    draws = False
    for start in range(0, n, MANY):
        few = _few(featurizer, batch, features, tolerance, slice(start, min(start + MANY, n)))
        draws |= _against_autograd(featurizer, *(few or (batch, features)), tolerance)
        if few is None:
            break
    return draws


def audit_again(featurizer: Audited, batch: Any, features: Features, which: int | None = None) -> None:
    """Of a later batch, one example alone: whether examples are mixed, or in another order, may depend on the data."""
    n = len(features.ids)
    if n > 1 and not featurizer.draws:
        _alone_later(featurizer, batch, features, _some(featurizer, n, 1)[0] if which is None else which)


def audit_losses(featurizer: Audited, batch: Any, features: Features, losses: Float[np.ndarray, "n"]) -> None:
    """Of a batch whose losses are not proven apart: examples by themselves must have the losses that they have in it.

    In at most GROUPS groups, drawn anew for every batch, forward only. Where a loss is another, the example's gradient
    alone decides.
    """
    n, allowed = len(losses), max(SAME_LOSS.get(dtype, 1e-4) for dtype in featurizer.dtypes)
    order, groups = np.random.default_rng([featurizer.batches, n]).permutation(n), min(n, GROUPS)
    for k in range(groups):
        rows = np.sort(order[k::groups])
        own = _losses_of(featurizer, batch, rows.tolist(), n)
        if own is None:
            return  # a batch that cannot be cut
        same = own.shape == rows.shape and np.abs(own - losses[rows]) <= allowed * np.abs(losses[rows])
        for i in rows[~np.broadcast_to(same, rows.shape)][:SINGLE]:
            _alone_later(featurizer, batch, features, int(i))


def _losses_of(featurizer: Audited, batch: Any, rows: Sequence[int], n: int) -> Float[np.ndarray, "k"] | None:
    """Of some examples without the others; nothing, if they cannot be run so: their gradients will tell why."""
    try:
        part = featurizer.take(batch, rows, n)
    except TypeError:
        return None
    with unharmed(featurizer.model), torch.no_grad():
        try:
            losses = featurizer.loss(featurizer.model, part)
        except (ValueError, RuntimeError, IndexError):
            return np.zeros(0)
    return np.asarray(losses.detach().cpu().double())


def _alone_later(featurizer: Audited, batch: Any, features: Features, i: int) -> None:
    try:
        _alone(featurizer, batch, features, i, IN_DOUBT if featurizer.strict else tolerance_of(featurizer.dtypes))
    except AuditError as error:
        if not featurizer.batches:
            raise
        raise AuditError(
            f"{error}. The first batch did not show it: what was made since then may be wrong as well; mend the "
            "model or the loss, and use a new folder"
        ) from None


def _few(
    featurizer: Audited, batch: Any, features: Features, tolerance: float, rows: slice
) -> tuple[Any, Features] | None:
    """Some examples without the others, and their features; None for a batch that cannot be cut."""
    try:
        return _smaller(featurizer, batch, features, rows)
    except AuditError:
        _alone(featurizer, batch, features, rows.start, tolerance)  # finds out which arrays all examples share
        return _smaller(featurizer, batch, features, rows)


def _some(featurizer: Audited, n: int, count: int) -> list[int]:
    """Different examples, drawn by the number of the batch."""
    return [int(i) for i in np.random.default_rng(featurizer.batches).permutation(n)[:count]]


def _alone(featurizer: Audited, batch: Any, features: Features, i: int, tolerance: float) -> None:
    """An array that all examples share may have as many rows as there are examples: both readings are tried."""
    try:
        _alone_as_cut(featurizer, batch, features, i, tolerance)
    except AuditError:
        n, known = len(features.ids), set(featurizer.shared)
        for path in [path for path, x in leaves(batch) if is_array(x) and len(x) == n and path not in known]:
            featurizer.shared.add(path)
            with suppress(AuditError):
                if _alone_as_cut(featurizer, batch, features, i, tolerance):
                    return
            featurizer.shared.discard(path)
        raise


def _alone_as_cut(featurizer: Audited, batch: Any, features: Features, i: int, tolerance: float) -> bool:
    """Returns whether an array was left from which the example could be taken."""
    alone = _smaller(featurizer, batch, features, slice(i, i + 1))
    if alone is not None:
        _in_its_batch(features, alone[1], tolerance)
    return alone is not None


def tolerance_of(dtypes: set[torch.dtype]) -> float:
    """The largest of what is allowed for these types."""
    return max(TOLERANCE.get(dtype, 1e-3) for dtype in dtypes)


def _proportion(featurizer: Audited) -> float:
    return max(PROPORTION.get(dtype, 1e-3) for dtype in featurizer.dtypes)


def _against_autograd(featurizer: Audited, batch: Any, features: Features, tolerance: float) -> bool:
    """Returns whether the loss draws random numbers."""
    parameters = featurizer.body.parameters
    with unharmed(featurizer.model), graph_keeping_checkpoints(), torch.enable_grad():
        for p in parameters.values():
            p.requires_grad_(True)
        random = RandomState()
        losses = featurizer.loss(featurizer.model, batch)
        draws = random.has_moved()
        wanted = list(parameters.values())
        gradients: tuple[Any, ...] = (None,) * len(wanted)
        if losses.requires_grad:  # some examples may reach no parameter of the body
            gradients = torch.autograd.grad(losses.sum(), wanted, allow_unused=True)
    acc = Accumulator(featurizer.sketch, False, featurizer.dtype, featurizer.work.device)
    acc.open(1, 1)
    sinks = make_sinks(acc, featurizer.work, featurizer.tables)
    for name, gradient in zip(parameters, gradients, strict=True):
        if gradient is not None:
            dense = gradient if gradient.layout == torch.strided else gradient.to_dense()
            sinks[name].whole(None, dense[None])
    assert acc.values is not None
    truth = acc.values[0].cpu().numpy().astype(np.float64)
    per_example, total = _rows(features), features.g.astype(np.float64).sum(axis=0)
    rounding = max(ROUNDING.get(dtype, 32) * torch.finfo(dtype).eps for dtype in featurizer.dtypes)
    floor = rounding * np.linalg.norm(per_example, axis=1).sum()
    for block in features.blocks:
        part = slice(block.start, block.stop)
        error = np.linalg.norm(total[part] - truth[part])
        scale = np.linalg.norm(per_example[:, part], axis=1).sum() + np.linalg.norm(truth[part])
        if not error <= tolerance * scale + floor:
            other = OtherGradients(
                f"the gradient of {block.name!r} differs from autograd's by {error / scale:.2g} of its size (allowed "
                f"{tolerance:.0e}): it is used in a way that its module's calls do not show, for instance directly by "
                "name, or its module changes from call to call; use it through one module, or leave it out of "
                f"Loop(body=...){_if_recomputed(featurizer)}"
            )
            other.parameters = (block.name,)
            raise other
    return draws


def _if_recomputed(featurizer: Audited) -> str:
    if not featurizer.memory.recompute:
        return ""
    return "; or a module that was run again (memory='recompute') keeps state: use memory='hooks' and smaller batches"


def _own_losses(featurizer: Audited, batch: Any, features: Features, tolerance: float) -> None:
    """Times a weight, an example's loss must have so much larger features, and the others' must stay."""
    n = len(features.ids)
    rows = min(featurizer.memory.rows or n, n)  # that run together: a weight counts within these
    weights = _weights(rows)[np.arange(n) % rows]
    again = featurizer.weighted(batch, _weights(rows))
    if again.values.shape != features.values.shape:
        raise AuditError(
            f"the loss, run again, takes other steps: features of shape {again.values.shape} after "
            f"{features.values.shape}; the model or the loss keeps something between calls, such as a cache"
        )
    error = np.linalg.norm(_by_example(again) / weights[:, None] - _by_example(features), axis=1)
    scale = 2 * np.linalg.norm(_by_example(features), axis=1) + 1e-30
    i = int(np.argmax(error / scale))
    if not error[i] <= tolerance * scale[i]:
        mixed = OtherGradients(
            f"the gradient of example {features.ids[i]!r} changes by {error[i] / scale[i]:.2g} of its size (allowed "
            f"{tolerance:.0e}) with the weights of other examples' losses: the model or the loss mixes examples (batch "
            "statistics, a mean over the batch), has them in another order or not on the first axis, or a hook changes "
            "gradients otherwise than in proportion; so an example's own gradient is not defined"
        )
        mixed.mixed = True
        off = np.abs(again.g / weights[:, None] - features.g)
        mixed.parameters = tuple(
            b.name
            for b in features.blocks
            if off[:, b.start : b.stop].max() > tolerance * np.abs(features.g[:, b.start : b.stop]).max()
        )
        raise mixed


def _weights(n: int) -> Float[np.ndarray, "n"]:
    """Neighbours have different ones, and so have examples that stand 8 apart, as threads or groups may."""
    i = np.arange(n)
    return WEIGHTS[(i + i // len(WEIGHTS)) % len(WEIGHTS)]


def _smaller(featurizer: Audited, batch: Any, features: Features, rows: slice) -> tuple[Any, Features] | None:
    """Some examples without the others, and their features; None for a batch that cannot be cut."""
    try:
        part = featurizer.take(batch, rows, len(features.ids))
    except TypeError:
        return None
    ids = features.ids[rows]
    try:
        own = featurizer.alone(part, ids)
    except (ValueError, RuntimeError, IndexError) as failure:
        raise AuditError(
            f"example {ids[0]!r} without the others fails ({failure}); the batch must be the first axis of every "
            "input, and an example must not need the others, as it does with batch norm, unless model.eval() was called"
        ) from failure
    if len(own.ids) != len(ids):
        raise AuditError(
            f"{len(ids)} of the examples gave {len(own.ids)} losses; the batch must be the first axis of every input"
        )
    return part, own


def _in_its_batch(features: Features, alone: Features, tolerance: float) -> None:
    for k, name in enumerate(alone.ids):
        mine, own = features.values[features.ids.index(name)], alone.values[k]
        if features.has_steps:
            steps = max(len(mine), len(own))
            mine, own = (np.pad(x, ((0, steps - len(x)), (0, 0))) for x in (mine, own))
        mine, own = mine.astype(np.float64), own.astype(np.float64)
        scale = np.linalg.norm(mine, axis=-1).sum() + np.linalg.norm(own, axis=-1).sum()
        error = np.linalg.norm(mine - own)
        if not error <= tolerance * scale:
            raise AuditError(
                f"example {name!r} without the others and in its batch differ by {error / scale:.2g} of their size "
                f"(allowed {tolerance:.0e}): the loss is divided by the size of the batch, or the model uses "
                "statistics of the batch, so an example's own gradient is not defined; or the batch holds an array "
                "that all examples share and that has as many rows as there are examples"
            )


def _rows(features: Features) -> Float[np.ndarray, "rows D"]:
    """Every step of every example, and what is outside the loop."""
    parts = [features.values] if features.outside is None else [features.values, features.outside]
    return np.concatenate([part.reshape(-1, part.shape[-1]).astype(np.float64) for part in parts])


def _by_example(features: Features) -> Float[np.ndarray, "n numbers"]:
    parts = [features.values] if features.outside is None else [features.values, features.outside]
    return np.concatenate([part.reshape(len(part), -1).astype(np.float64) for part in parts], axis=1)
