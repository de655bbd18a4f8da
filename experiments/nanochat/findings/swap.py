"""State swap: the state after step `at` is replaced by that of another step, and the loop goes on as if nothing was.

- own: of the same sequence. A step is a map of the input and the state alone, and does not know its number: what
  follows is exactly what follows in a loop that is longer or shorter by the difference (a test holds it). So this swap
  is accuracy against tau by another name.
- other: of another sequence. Beside the other's state of the same step, that of another step shows what the step of
  the state does when its content is foreign either way.

Influence is of the training conversations, as they are, on the steps after the swap; the state that was put in is held
constant, so what is compared with is the same sequence with its own state of step `at`, held constant as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sdi.inputs.checkpoints import find_checkpoints

from ...base import wilson
from ..answers import written
from ..chat import Chat
from ..influence import Tell, influence, loss_of
from ..model import FromState, begin, model_with, step
from ..settings import Settings
from .growth import resampled, spread_over_steps

Array = np.ndarray
ROWS = 32  # of a batch; donors are of the same batch


def states_after(model: Any, tokens: Tensor, steps: Sequence[int]) -> dict[int, Tensor]:
    """The states (n, L, d) after some of the loop's steps."""
    out = {}
    with torch.no_grad():
        e = begin(model, tokens)
        s = e
        for t in range(1, max(steps) + 1):
            s = step(model, e, s)
            if t in steps:
                out[t] = s
    return out


def swapped_batches(model: Any, chat: Chat, at: int, steps: Sequence[int], tau: int) -> dict[str, list[dict[str, Any]]]:
    """Held-out problems with a "state" to go on from for tau - at steps, by "own, t" and "other, t" for t in `steps`.

    The other is the neighbour in order of length, so that it has about as many tokens.
    """
    some = sorted(chat.corpus.test["problems"][: chat.settings.queries], key=lambda c: len(chat.rendered(c).tokens))
    some = some[:-1] if len(some) % ROWS == 1 else some  # a batch of one has no other
    out: dict[str, list[dict[str, Any]]] = {f"{whose}, {t}": [] for whose in ("own", "other") for t in steps}
    for batch in chat.batches(some, everything=False):
        found = states_after(model, batch["tokens"], steps)
        for t, s in found.items():
            for whose, state in (("own", s), ("other", s.roll(1, dims=0))):
                name = f"{whose}, {t}"
                ids = [f"{name}: {one}" for one in batch["id"]]
                out[name].append({**batch, "id": ids, "state": state, "tau": torch.full((len(ids),), tau - at)})
    return out


def swap(
    chat: Chat, settings: Settings, checkpoint: Path, store: Path, tell: Tell = lambda progress: None
) -> dict[str, Any]:
    """Accuracy, loss and influence after each swap, compared with the state that belongs there.

    chat: the conversations. settings: `focus` steps, the swap after half of them, of states of steps `swaps`.
    checkpoint: a file; of earlier ones nothing is said. store: a folder for features. tell: called after every batch.
    """
    s, tau, at = settings, settings.focus, settings.focus // 2
    steps = sorted({*s.swaps, at})
    model = FromState(model_with(s, find_checkpoints([checkpoint])[0].weights(), tau, truncated=False))
    batches = swapped_batches(model, chat, at, steps, tau)
    train = chat.batches(list(chat.corpus.train["problems"][: s.sample]), s.stage == "mid")
    train = [{**batch, "tau": torch.full((len(batch["id"]),), tau)} for batch in train]
    query = [batch for some in batches.values() for batch in some]
    config = s.model_config(tau, truncated=False)
    found = influence(model, config.loop(), [checkpoint], train, query, store, s.m, tell).sum(axis=0)
    profiles = dict(zip(batches, found.reshape(len(batches), -1, tau - at), strict=True))
    measured = {name: _measure(model, some) for name, some in batches.items()}
    own, other = f"own, {at}", f"other, {at}"
    out = {}
    for name, (right, losses) in measured.items():
        out[name] = {
            "right": wilson(right),
            "loss": float(losses.mean()),
            "loss, more than own": difference(losses, measured[own][1], s.draws, s.seed),
            "loss, more than the other's same step": difference(losses, measured[other][1], s.draws, s.seed),
            "influence": ratio(profiles[name].sum(axis=1), profiles[own].sum(axis=1), s.draws, s.seed),
            "last": spread_over_steps(profiles[name], s.draws, s.seed)["last"],
        }
    return {"tau": tau, "at": at, "steps": steps, "swaps": out}


def _measure(model: Any, batches: Sequence[dict[str, Any]]) -> tuple[Array, Array]:
    """Whether each answer is written as it should be, and its loss."""
    right, losses = [], []
    with torch.no_grad():
        for batch in batches:
            logits = model(batch)
            right.append(written(logits, batch))
            losses.append(loss_of(logits, batch).double().numpy())
    return np.concatenate(right), np.concatenate(losses)


def difference(x: Float[Array, "q"], y: Float[Array, "q"], draws: int, seed: int) -> dict[str, float]:
    """The mean of x - y with its 95% interval, from a bootstrap over pairs."""
    gap = (x - y)[:, None]
    low, high = np.percentile(resampled(gap, draws, seed), [2.5, 97.5]).tolist()
    return {"value": float(gap.mean()), "low": low, "high": high}


def ratio(x: Float[Array, "q"], y: Float[Array, "q"], draws: int, seed: int) -> dict[str, float] | None:
    """The mean of x over the mean of y with its 95% interval, from a bootstrap over pairs; None if y's is 0."""
    if y.sum() == 0:
        return None
    drawn = resampled(np.stack([x, y], axis=1), draws, seed)
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1], [2.5, 97.5]).tolist()
    return {"value": float(x.sum() / y.sum()), "low": low, "high": high}
