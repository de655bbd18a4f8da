"""The self-audit: two ways in which a run's numbers could be wrong, looked for on the run's own data.

1. Sketched steps, summed, against the sketch of autograd's own gradient, parameter by parameter.
2. One example alone against the same example in its batch: a model that mixes examples (batch statistics, a loss
   averaged over the batch, the batch on another axis) cannot have per-example gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sdi.batches import take_examples
from sdi.errors import AuditError
from sdi.features import Features

from .batches import count_examples
from .checkpointing import graph_keeping_checkpoints
from .sinks import Accumulator, make_sinks
from .unharmed import unharmed

if TYPE_CHECKING:
    from .featurize import Featurizer

# Relative to the norms of what is summed. Rounding is at most a few thousand eps at the sizes that run; a missed call,
# a wrong pairing or a mixed batch is off by percents. Beside it, ROUNDING eps of the whole gradient are allowed: some
# parameters' gradients cancel to nothing but rounding (the bias of attention's keys).
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.02}
ROUNDING = 32


def audit_features(featurizer: Featurizer, batch: Any, features: Features) -> None:
    """Raise AuditError, naming the parameter, if the features are not what autograd says."""
    tolerance = max(TOLERANCE.get(dtype, 1e-3) for dtype in featurizer.dtypes)
    _against_autograd(featurizer, batch, features, tolerance)
    if len(features.ids) > 1:
        _alone(featurizer, batch, features, tolerance)


def _against_autograd(featurizer: Featurizer, batch: Any, features: Features, tolerance: float) -> None:
    parameters = featurizer.body.parameters
    with unharmed(featurizer.model), graph_keeping_checkpoints(), torch.enable_grad():
        for p in parameters.values():
            p.requires_grad_(True)
        losses = featurizer.loss(featurizer.model, batch)
        gradients = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)
    acc = Accumulator(featurizer.sketch, False, featurizer.dtype, featurizer.work.device)
    acc.open(1, 1)
    sinks = make_sinks(acc, featurizer.work, featurizer.tables)
    for name, gradient in zip(parameters, gradients, strict=True):
        if gradient is not None:
            sinks[name].whole(None, gradient[None])
    assert acc.values is not None
    truth = acc.values[0].cpu().numpy()
    parts = [features.values] if features.outside is None else [features.values, features.outside]
    per_example = np.concatenate([part.reshape(-1, truth.size) for part in parts])
    total = features.g.sum(axis=0)
    eps = max(torch.finfo(dtype).eps for dtype in featurizer.dtypes)
    floor = ROUNDING * eps * np.linalg.norm(per_example, axis=1).sum()
    for block in features.blocks:
        part = slice(block.start, block.stop)
        error = np.linalg.norm(total[part] - truth[part])
        scale = np.linalg.norm(per_example[:, part], axis=1).sum() + np.linalg.norm(truth[part])
        if not error <= tolerance * scale + floor:
            raise AuditError(
                f"the gradient of {block.name!r} differs from autograd's by {error / scale:.2g} of its size (allowed "
                f"{tolerance:.0e}): it is used in a way that its module's calls do not show, for instance directly by "
                "name; use it through one module, or leave it out of Loop(body=...)"
            )


def _alone(featurizer: Featurizer, batch: Any, features: Features, tolerance: float) -> None:
    n = count_examples(batch)
    i = n - 1
    try:
        alone = featurizer.features(take_examples(batch, slice(i, n), n), part=True)
    except (ValueError, RuntimeError, IndexError) as failure:
        raise AuditError(
            f"example {features.ids[i]!r} alone fails ({failure}); the batch must be the first axis of every input, "
            "and an example must not need the others, as it does with batch norm, unless model.eval() was called"
        ) from failure
    if len(alone.ids) != 1:
        raise AuditError(
            f"one example alone gave {len(alone.ids)} losses; the batch must be the first axis of every input"
        )
    mine, own = features.values[i], alone.values[0]
    if features.has_steps:
        steps = max(len(mine), len(own))
        mine, own = (np.pad(x, ((0, steps - len(x)), (0, 0))) for x in (mine, own))
    scale = np.linalg.norm(mine, axis=-1).sum() + np.linalg.norm(own, axis=-1).sum()
    error = np.linalg.norm(mine - own)
    if not error <= tolerance * scale:
        raise AuditError(
            f"example {features.ids[i]!r} alone and in its batch differ by {error / scale:.2g} of their size (allowed "
            f"{tolerance:.0e}): the model or the loss mixes examples (batch statistics, dropout in training mode, a "
            "mean over the batch, or the batch not on the first axis), so an example's own gradient is not defined"
        )
