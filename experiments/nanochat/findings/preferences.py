"""Preference pairs: a right answer and one with a wrong sum, and the DPO loss of a pair, one value per pair.

    L = -log sigmoid(beta (log p(right) - log p(wrong) - what the reference model says of the same difference))

The reference is the model before fine-tuning. The loss calls the model twice; the steps of both calls count from 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sdi.backends import room
from sdi.inputs.checkpoints import find_checkpoints

from ..chat import Chat
from ..corpus import Conversation
from ..corpus.sources import ANSWER
from ..corpus.token_batches import make_batch
from ..influence import Tell, influence
from ..model import model_with
from ..settings import Settings
from .growth import fit_growth, spread_over_steps

BETA = 0.1
ROWS = 32  # of a batch
SIDES = ("", "wrong_")  # before the keys of a batch


def wrong_answer(conversation: Conversation, rng: np.random.Generator) -> Conversation:
    """A word problem with one of its two sums off by up to 3; what follows from a wrong first sum is right.

    >>> one = Conversation("problems", "", "", "3 + 4 = 7. 7 - 2 = 5. #### 5")
    >>> wrong_answer(one, np.random.default_rng(1)).assistant
    '3 + 4 = 7. 7 - 2 = 4. #### 4'
    """
    (a, sign, b, first), (_, then, c, second) = re.findall(r"(\d+) ([+-]) (\d+) = (\d+)", conversation.assistant)
    while True:
        off = int(rng.choice([-3, -2, -1, 1, 2, 3]))
        x = int(first) + off if rng.random() < 0.5 else int(first)
        y = (x + int(c) if then == "+" else x - int(c)) if x != int(first) else int(second) + off
        if min(x, y) >= 0:
            break
    said = f"{a} {sign} {b} = {x}. {x} {then} {c} = {y}. {ANSWER}{y}"
    return replace(conversation, assistant=said)


def log_probability(model: Any, batch: dict[str, Any]) -> Tensor:
    """The log-probability of the counted targets of each row, summed."""
    chosen = model(batch).log_softmax(dim=-1).gather(-1, batch["targets"][..., None])[..., 0]
    return (chosen * batch["mask"]).sum(dim=1)


def margins(model: Any, batch: dict[str, Any]) -> Tensor:
    """log p(right) - log p(wrong) of each pair."""
    more = {"tau": batch["tau"]} if "tau" in batch else {}
    right, wrong = (
        log_probability(model, {key: batch[side + key] for key in ("tokens", "targets", "mask")} | more)
        for side in SIDES
    )
    return right - wrong


def dpo(model: Any, batch: Any) -> Any:
    """The DPO loss of each pair. batch: of `pair_batches`."""
    return -F.logsigmoid(BETA * (margins(model, batch) - batch["reference"]))


def pair_batches(
    chat: Chat, conversations: Sequence[Conversation], reference: Any, tau: int, seed: int
) -> list[dict[str, Any]]:
    """Word problems, each with a wrong answer, as batches for `dpo`. reference: a model, asked at `tau` loop steps."""
    rng, out = np.random.default_rng(seed), []
    for k in range(0, len(conversations), ROWS):
        some = conversations[k : k + ROWS]
        others = [wrong_answer(one, rng) for one in some]
        ids = [f"{one.user} {one.assistant}, not {other.assistant}" for one, other in zip(some, others, strict=True)]
        batch: dict[str, Any] = {"id": ids}
        for side, answers in zip(SIDES, (some, others), strict=True):
            rows = make_batch([chat.rendered(one) for one in answers], everything=False)
            batch |= {side + key: value for key, value in rows.items()}
        with torch.no_grad():
            batch["reference"] = margins(reference, batch | {"tau": torch.full((len(some),), tau)})
        out.append(batch)
    return out


def preferences(
    chat: Chat,
    settings: Settings,
    checkpoints: Sequence[Path],
    before: Path,
    store: Path,
    tell: Tell = lambda progress: None,
) -> dict[str, Any]:
    """Influence of training pairs on held-out ones over `focus` steps, and how often the right answer is likelier.

    chat: the conversations. settings: with the stage. checkpoints: of the stage. before: the checkpoint of the
    reference. store: a folder for features. tell: called after every batch.
    """
    s, config = settings, settings.model_config(settings.focus, truncated=False)
    reference, last = (
        model_with(s, find_checkpoints([point])[0].weights(), s.focus) for point in (before, checkpoints[-1])
    )
    train, query = (
        pair_batches(chat, some[:many], reference, s.focus, s.seed)
        for some, many in ((chat.corpus.train["problems"], s.pairs), (chat.corpus.test["problems"], s.pairs // 2))
    )
    loop = replace(config.loop(), calls="restart")
    model = room("fast").LoopedTransformer(config)
    profiles = influence(model, loop, checkpoints, train, query, store, s.m, tell, of=dpo).sum(axis=0)
    with torch.no_grad():
        preferred = torch.cat([margins(last, batch) > 0 for batch in query])
    return {
        "tau": s.focus,
        "pairs": [s.pairs, len(profiles)],
        "preferred": float(preferred.float().mean()),
        "profile": spread_over_steps(profiles, s.draws, s.seed),
        "growth": fit_growth(profiles, s.draws, s.seed),
    }
