"""answered: which word problems a model answers rightly, by greedy decoding; chance: the commonest answer's share.

What greedy decoding says is the written answer if and only if every token of it is the likeliest one after those before
it: one pass tells for all tokens (`written`), and only the other problems need decoding token by token.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from .corpus import Conversation, Tokenizer, final_answer
from .corpus.token_batches import make_batch, prompt, render

Array = np.ndarray
Choose = Callable[[Tensor], Tensor]


def likeliest(logits: Tensor) -> Tensor:
    return logits.argmax(dim=-1)


def sampling(seed: int) -> Choose:
    """Draw tokens by their probabilities."""
    generator = torch.Generator().manual_seed(seed)
    return lambda logits: torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)[:, 0]


def speak(
    model: Any, prompts: Sequence[Sequence[int]], tau: int, most: int, end: int, choose: Choose = likeliest
) -> list[list[int]]:
    """What the model says after each of `prompts`, up to `end` or `most` tokens.

    Prompts are padded behind, where a causal model does not look. tau: loop steps for every token. choose: the next
    token of each row, from logits (n, vocab).
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
            says = choose(logits[rows, at - 1])
            speaking &= says != end
            if not speaking.any():
                break
            tokens[rows[speaking], at[speaking]] = says[speaking]
            at += speaking
    return [row[len(p) : int(k)].tolist() for row, p, k in zip(tokens, prompts, at, strict=True)]


def written(logits: Tensor, batch: dict[str, Any]) -> Bool[Array, "n"]:
    """Whether every counted target is the likeliest token. batch: with "targets" and "mask"."""
    missed = (logits.argmax(dim=-1) != batch["targets"]) & (batch["mask"] > 0)
    return np.asarray(~missed.any(dim=1))


def answered(
    model: Any, conversations: Sequence[Conversation], tokenizer: Tokenizer, tau: int, batch: int = 64
) -> Bool[Array, "n"]:
    """Whether the model's final answer to each question is the right one, by greedy decoding."""
    out = np.zeros(len(conversations), dtype=bool)
    for k in range(0, len(conversations), batch):
        some = conversations[k : k + batch]
        rows = make_batch([render(c, tokenizer, sys.maxsize) for c in some], everything=False)
        with torch.no_grad():
            right = written(model({**rows, "tau": torch.full((len(some),), tau)}), rows)
        rest = np.flatnonzero(~right).tolist()
        if rest:
            most = 2 + max(len(tokenizer.encode(c.assistant)) for c in some)
            prompts = [prompt(some[j].user, tokenizer) for j in rest]
            said = speak(model, prompts, tau, most, tokenizer.mark["assistant end"])
            right[rest] = [
                final_answer(tokenizer.decode(words)) == final_answer(some[j].assistant)
                for j, words in zip(rest, said, strict=True)
            ]
        out[k : k + batch] = right
    return out


def chance(train: Sequence[Conversation], test: Sequence[Conversation]) -> float:
    """The share of `test` whose answer is the commonest of `train`: what one gets who knows nothing else."""
    common = Counter(final_answer(c.assistant) for c in train).most_common(1)[0][0]
    return float(np.mean([final_answer(c.assistant) == common for c in test]))
