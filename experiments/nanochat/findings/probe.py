"""Probes: can the step index, or the number of steps to go, be read linearly from the loop's state?

States are taken where the answer begins, after every step. The probe is ridge regression, fitted on some sequences and
tested on others. It is compared with chance and, for steps to go, with one who knows the step index and nothing else:
a state cannot know more, for it does not depend on the horizon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from ..model import begin, step
from .growth import resampled

Array = np.ndarray
RIDGE = 1e-3  # of the mean square of the features


def states(model: Any, prompts: Sequence[Sequence[int]], tau: int) -> Float[Array, "n tau d"]:
    """The state after each of `tau` loop steps at the last token of each prompt. model: a LoopedTransformer."""
    out = []
    with torch.no_grad():
        for p in prompts:
            e = begin(model, torch.tensor([list(p)]))
            s, mine = e, []
            for _ in range(tau):
                s = step(model, e, s)
                mine.append(s[0, -1].double().numpy())
            out.append(np.stack(mine))
    return np.stack(out)


def read(x: Float[Array, "n d"], y: Float[Array, "n c"], x_new: Float[Array, "k d"]) -> Float[Array, "k c"]:
    """What ridge regression of y on x, with a constant, says of new rows."""
    x, x_new = (np.hstack([rows, np.ones((len(rows), 1))]) for rows in (x, x_new))
    gram = x.T @ x + RIDGE * (x**2).sum(axis=1).mean() * np.eye(x.shape[1])
    return x_new @ np.linalg.solve(gram, x.T @ y)


def probe(found: Float[Array, "n tau d"], draws: int, seed: int) -> dict[str, Any]:
    """How well held-out states say their step index, and their steps to go, beside what they are to be compared with.

    found: states of n sequences; every second one is held out. A state is normed, as the read-out norms it. `index`:
    the share of states whose step is said rightly, `by step` the same for each step. `to go`: R^2, where every state
    has a horizon of its own, uniform from its step to the last, and the number said is what is left of it; 0 by chance,
    below for a bad guess. Intervals: 95%, from a bootstrap over held-out sequences.
    """
    many, tau, d = found.shape
    unit = found / np.maximum(np.linalg.norm(found, axis=-1, keepdims=True), 1e-30)
    index = np.broadcast_to(np.arange(tau), (many, tau))
    left = np.random.default_rng(seed).integers(0, tau - index).astype(float)
    fit, held = slice(0, None, 2), slice(1, None, 2)
    x, x_new, truth = unit[fit].reshape(-1, d), unit[held].reshape(-1, d), left[held]

    one_hot = np.eye(tau)[index]
    right = (read(x, one_hot[fit].reshape(-1, tau), x_new).argmax(axis=1).reshape(-1, tau) == index[held]).astype(float)
    low, high = np.percentile(resampled(right, draws, seed).mean(axis=1), [2.5, 97.5]).tolist()
    whole = ((truth - left[fit].mean()) ** 2).sum(axis=1)

    def explained(said: Float[Array, "k tau"]) -> dict[str, float]:
        off = np.stack([((said - truth) ** 2).sum(axis=1), whole], axis=1)
        drawn = resampled(off, draws, seed)
        ends = np.percentile(1 - drawn[:, 0] / drawn[:, 1], [2.5, 97.5]).tolist()
        return {"share": float(1 - off[:, 0].sum() / off[:, 1].sum()), "low": ends[0], "high": ends[1]}

    said = read(x, left[fit].reshape(-1, 1), x_new).reshape(-1, tau)
    return {
        "index": {"share": float(right.mean()), "low": low, "high": high},
        "by step": right.mean(axis=0).tolist(),
        "index, chance": 1 / tau,
        "to go": explained(said),
        "to go, of one who knows the index": explained(np.broadcast_to(left[fit].mean(axis=0), truth.shape)),
    }
