"""answered: which word problems a model answers rightly, by greedy decoding; chance: the commonest answer's share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool

from .corpus import Conversation, Tokenizer, final_answer
from .corpus.token_batches import prompt

Array = np.ndarray


def greedy(model: Any, prompts: Sequence[Sequence[int]], tau: int, most: int, end: int) -> list[list[int]]:
    """What the model says after each of `prompts`, always its likeliest token, up to `end` or `most` tokens.

    Prompts are padded behind, where a causal model does not look. tau: loop steps for every token.
    """
    at = torch.tensor([len(p) for p in prompts])
    tokens = torch.zeros(len(prompts), int(at.max()) + most, dtype=torch.long)
    for row, p in zip(tokens, prompts, strict=True):
        row[: len(p)] = torch.tensor(p)
    rows, steps = torch.arange(len(prompts)), torch.full((len(prompts),), tau)
    speaking = torch.ones(len(prompts), dtype=torch.bool)
    with torch.no_grad():
        for _ in range(most):
            logits = model({"tokens": tokens[:, : int(at.max())], "tau": steps})
            says = logits[rows, at - 1].argmax(dim=-1)
            speaking &= says != end
            if not speaking.any():
                break
            tokens[rows[speaking], at[speaking]] = says[speaking]
            at += speaking
    return [row[len(p) : int(k)].tolist() for row, p, k in zip(tokens, prompts, at, strict=True)]


def answered(
    model: Any, conversations: Sequence[Conversation], tokenizer: Tokenizer, tau: int, batch: int = 64
) -> Bool[Array, "n"]:
    """Whether the model's final answer to each question is the right one."""
    most = 2 + max(len(tokenizer.encode(c.assistant)) for c in conversations)
    said: list[list[int]] = []
    for k in range(0, len(conversations), batch):
        prompts = [prompt(c.user, tokenizer) for c in conversations[k : k + batch]]
        said += greedy(model, prompts, tau, most, tokenizer.mark["assistant end"])
    right = [final_answer(c.assistant) for c in conversations]
    return np.array([final_answer(tokenizer.decode(s)) == r for s, r in zip(said, right, strict=True)])


def chance(train: Sequence[Conversation], test: Sequence[Conversation]) -> float:
    """The share of `test` whose answer is the commonest of `train`: what one gets who knows nothing else."""
    common = Counter(final_answer(c.assistant) for c in train).most_common(1)[0][0]
    return float(np.mean([final_answer(c.assistant) == common for c in test]))
