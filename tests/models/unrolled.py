"""The oracle for models of any make: parameters of their own for every step, put in place by hooks on the step module.

Each example runs alone, in a copy of the model; autograd's gradient of its loss by the copy of step t is phi[t].
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch

import sdi
from sdi.bench.fuzz.untied import Copies


def unrolled(model: Any, loss: Any, loop: sdi.Loop, example: Any) -> tuple[np.ndarray, np.ndarray]:
    """phi (steps, numbers) and what lies outside the loop (numbers,), of a batch of one."""
    model = deepcopy(model)
    copies = Copies(model, list(loop.body))
    modules = dict(model.named_modules())
    steps = [loop.step] if isinstance(loop.step, str) else list(loop.step)
    count = 0

    def begin(module: Any, args: Any) -> None:
        nonlocal count
        copies.at(count)
        count += 1

    def between(module: Any, args: Any) -> None:
        nonlocal count
        copies.at(None)
        count = count if loop.calls == "continue" else 0

    model.register_forward_pre_hook(between)
    for name in steps:
        modules[name].register_forward_pre_hook(begin)
    if loop.end is not None:
        modules[loop.end].register_forward_pre_hook(lambda module, args: copies.at(None))
    copies.at(None)
    (value,) = loss(model, example)
    flat = [w for weights in copies.steps.values() for w in weights.values()]
    grads = torch.autograd.grad(value, flat, allow_unused=True)
    parts = iter([torch.zeros_like(w) if g is None else g for w, g in zip(flat, grads, strict=True)])
    rows = {t: np.concatenate([next(parts).flatten().numpy() for _ in w]) for t, w in copies.steps.items()}
    outside = rows.pop(None)
    return np.stack([rows[t] for t in sorted(rows)]), outside


def compare(model: Any, loss: Any, loop: sdi.Loop, batch: dict[str, Any], memory: str) -> tuple[float, sdi.Features]:
    """How far featurize is from the oracle, as a share of each example's size, and what it gave."""
    found = sdi.fast.featurize(model, loss, batch, loop=loop, memory=memory)
    worst = 0.0
    for i in range(len(found.ids)):
        phi, outside = unrolled(model, loss, loop, {key: x[i : i + 1] for key, x in batch.items()})
        assert found.phi.shape[1] == len(phi), f"{found.phi.shape[1]} steps, not {len(phi)}"
        mine = np.zeros_like(outside) if found.outside is None else found.outside[i]
        size = np.linalg.norm(phi) + np.linalg.norm(outside)
        assert size > 0
        error = np.linalg.norm(found.phi[i] - phi) + np.linalg.norm(mine - outside)
        worst = max(worst, error / size)
    return worst, found
