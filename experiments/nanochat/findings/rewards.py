"""A verifiable reward: answers that the model samples, 1 for a right one and 0 for a wrong one, as a policy gradient.

    L = -(reward - mean reward of the other answers to the question) log p(answer)

one value per sampled answer: its gradient, averaged over samples, is minus that of the expected reward. The influence
of one question on another is the sum over their samples: above 0, learning from the one raises the other's reward.
Samples whose advantage is 0 have no gradient, and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from sdi.backends import room
from sdi.inputs.checkpoints import find_checkpoints

from ...base import wilson
from ..answers import sampling, speak
from ..chat import Chat
from ..corpus import Conversation, Rendered, final_answer
from ..corpus.token_batches import make_batch, prompt
from ..influence import Tell, influence
from ..model import model_with
from ..settings import Settings
from .growth import fit_growth, spread_over_steps
from .preferences import log_probability

Array = np.ndarray
ROWS = 32  # of a batch


class Sample(NamedTuple):
    """An answer that was sampled. question: its number."""

    question: int
    row: Rendered
    reward: float
    advantage: float


def policy_gradient(model: Any, batch: Any) -> Any:
    """-advantage * log p(answer) of each sampled answer."""
    return -batch["advantage"] * log_probability(model, batch)


def advantages(rewards: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """Each reward minus the mean of the other samples of its question: with itself in the mean, it would be too small.

    >>> advantages(np.array([[1.0, 0.0, 0.0]])).tolist()
    [[1.0, -0.5, -0.5]]
    """
    k = rewards.shape[1]
    return (rewards - rewards.mean(axis=1, keepdims=True)) * k / (k - 1)


def sample(
    model: Any, chat: Chat, conversations: Sequence[Conversation], tau: int, many: int, seed: int
) -> list[Sample]:
    """`many` answers to each question at `tau` loop steps, with rewards and advantages.

    An answer of more tokens than twice the longest right one is cut there, and has no end.
    """
    tokenizer, choose = chat.tokenizer, sampling(seed)
    end = tokenizer.mark["assistant end"]
    most = 2 * max(len(tokenizer.encode(c.assistant)) for c in conversations)
    prompts = [prompt(c.user, tokenizer) for c in conversations for _ in range(many)]
    said: list[list[int]] = []
    for k in range(0, len(prompts), 2 * ROWS):
        said += speak(model, prompts[k : k + 2 * ROWS], tau, most, end, choose)
    truth = [final_answer(c.assistant) for c in conversations for _ in range(many)]
    rewards = np.array([
        float(final_answer(tokenizer.decode(words)) == right) for words, right in zip(said, truth, strict=True)
    ])  # fmt: skip
    better = advantages(rewards.reshape(-1, many)).ravel()
    rows = [_row(p, words, most, end) for p, words in zip(prompts, said, strict=True)]
    return [
        Sample(k // many, row, float(r), float(a))
        for k, (row, r, a) in enumerate(zip(rows, rewards, better, strict=True))
    ]


def _row(before: Sequence[int], words: Sequence[int], most: int, end: int) -> Rendered:
    answer = [*words, end] if len(words) < most else list(words)
    return Rendered([*before, *answer], [False] * len(before) + [True] * len(answer))


def sample_batches(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Samples as batches for `policy_gradient`; their ids have numbers, for the same words may be said twice."""
    out = []
    for k in range(0, len(samples), ROWS):
        some = samples[k : k + ROWS]
        ids = [
            f"sample {k + j} of question {x.question}, {x.advantage:+.3f}: {x.row.tokens}" for j, x in enumerate(some)
        ]
        out.append({
            "id": ids, **make_batch([one.row for one in some], everything=False),
            "advantage": torch.tensor([one.advantage for one in some], dtype=torch.float32),
        })  # fmt: skip
    return out


def rewards(
    chat: Chat, settings: Settings, checkpoint: Path, store: Path, tell: Tell = lambda progress: None
) -> dict[str, Any]:
    """Influence of training questions on held-out ones over the steps of `focus`, at the weights that sampled.

    chat: the conversations. settings: with the stage. checkpoint: a file. store: a folder for features. tell: called
    after every batch.
    """
    s, config = settings, settings.model_config(settings.focus, truncated=False)
    model = model_with(s, find_checkpoints([checkpoint])[0].weights(), s.focus, truncated=False)
    sides = {
        side: sample(model, chat, getattr(chat.corpus, side)["problems"][:many], s.focus, s.samples, s.seed + k)
        for k, (side, many) in enumerate((("train", s.pairs), ("test", s.pairs // 2)))
    }
    used = {side: [one for one in some if one.advantage] for side, some in sides.items()}
    out: dict[str, Any] = {
        "tau": s.focus,
        "reward": {side: wilson(np.array([one.reward > 0 for one in some])) for side, some in sides.items()},
        "used": {side: [len(used[side]), len(some)] for side, some in sides.items()},
        "profile": None,
        "growth": None,
    }
    if not all(used.values()):
        return out
    batches = {side: sample_batches(some) for side, some in used.items()}
    found = influence(
        room("fast").LoopedTransformer(config), config.loop(), [checkpoint], batches["train"], batches["test"], store,
        s.m, tell, of=policy_gradient,
    ).sum(axis=0)  # fmt: skip
    profiles = np.zeros((s.pairs // 2, s.focus))
    np.add.at(profiles, [one.question for one in used["test"]], found)
    return out | {
        "profile": spread_over_steps(profiles, s.draws, s.seed),
        "growth": fit_growth(profiles, s.draws, s.seed),
    }
