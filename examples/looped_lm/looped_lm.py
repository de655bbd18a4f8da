"""A small looped language model, and a question: which documents shaped the late steps of this token?

python looped_lm.py            # trains (under a minute), then asks
sdi run config.toml            # the same question's scores from the command line
sdi top runs/question --query 'question[30]' --by-group runs/documents.csv
sdi report config.toml --by-group runs/documents.csv

Copy this file and change it: the texts, the model, the training loop and the question are all here. Of `sdi` it uses
only what is public.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import sdi
from sdi import lm

HERE = Path(__file__).parent
TEXTS = HERE / "texts"
CHECKPOINTS = HERE / "training"
LETTERS = "\n abcdefghijklmnopqrstuvwxyz.,'"
LENGTH = 48  # letters in an example
QUESTION = "the moon pulls the water and the tide rises twi"
TOKEN = 30  # the place in the question whose letter is asked about
TAU = 6


class LoopedLM(nn.Module):
    """Letters -> logits of the next letter: one block of causal attention, applied TAU times to a growing thought."""

    def __init__(self, d: int = 48, heads: int = 4) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(len(LETTERS), d), nn.Embedding(LENGTH, d)
        self.inject = nn.Linear(2 * d, d)  # the state and the letters -> what the block works on
        self.block = nn.TransformerEncoderLayer(d, heads, 4 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, len(LETTERS))

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        length = input_ids.shape[1]
        letters = self.embed(input_ids) + self.place.weight[:length]
        ahead = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).triu(1)
        state = torch.zeros_like(letters)
        for _ in range(TAU):
            state = self.block(self.inject(torch.cat([state, letters], dim=-1)), src_mask=ahead)
        return self.head(self.norm(state))


def documents() -> list[dict[str, Any]]:
    """Every document cut into examples, which are named after it: tides/0, tides/1, ..."""
    rows = []
    for file in sorted(TEXTS.glob("*.txt")):
        text = " ".join(file.read_text().lower().split())
        for k, start in enumerate(range(0, len(text) - LENGTH // 2, LENGTH)):
            rows.append({"id": f"{file.stem}/{k}", "input_ids": tokens(text[start : start + LENGTH])})
    return rows


def tokens(text: str) -> list[int]:
    return [LETTERS.index(letter) for letter in text if letter in LETTERS]


# What `sdi run config.toml` asks for: model(), loss(model, batch), train(), query(); `sdi report`, show(example).

loss = lm.causal_loss


def model() -> LoopedLM:
    torch.manual_seed(0)
    return LoopedLM()


def train() -> Any:
    return lm.token_batches(documents(), batch_size=16)


def query() -> Any:
    """One query for each letter of the question."""
    return lm.per_token(lm.token_batches([{"id": "question", "input_ids": tokens(QUESTION)}]))


def show(example: dict[str, Any]) -> list[str]:
    """An example in a report: its letters, each a token."""
    return [LETTERS[k] for k, real in zip(example["input_ids"], example["attention_mask"], strict=True) if real]


def fit(steps: int, keep: int = 4) -> LoopedLM:
    """Train, and save the model with its optimiser every so often: sdi reads the learning rate from there."""
    net, rows = model(), documents()
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps)))
    )
    CHECKPOINTS.mkdir(exist_ok=True)
    for old in CHECKPOINTS.glob("step-*.pt"):
        old.unlink()
    generator = torch.Generator().manual_seed(1)
    for step in range(1, steps + 1):
        chosen = torch.randperm(len(rows), generator=generator)[:16].tolist()
        (batch,) = lm.token_batches([rows[k] for k in chosen], batch_size=16)
        value = loss(net, batch).mean()
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        if step % max(1, steps // keep) == 0 and step < steps:
            saved = {"model": net.state_dict(), "optimizer": optimiser.state_dict()}
            torch.save(saved, CHECKPOINTS / f"step-{step}.pt")
        schedule.step()
        if step % max(1, steps // 5) == 0:
            print(f"step {step:4}: {float(value.detach()):.3f} nats a letter")
    return net


def ask() -> sdi.Result:
    """Who shaped the late steps of one letter: examples, and whole documents."""
    net = model()
    (batch,) = lm.token_batches([{"input_ids": tokens(QUESTION)}])
    found = sdi.find_loops(net, loss, batch)
    print(f"\ncalls: {found.picture}\nloop:  {found[0].line}\n")
    store = HERE / "runs" / "question"
    result = sdi.attribute(
        net,
        loss=loss,
        loop=found[0].loop,
        checkpoints=CHECKPOINTS / "step-*.pt",
        train=train(),
        query=query(),
        m=1024,
        store=store,
        progress=True,
    )
    asked, late = f"question[{TOKEN}]", slice(TAU // 2 + 1, TAU)
    said = f"{QUESTION[:TOKEN]}[{QUESTION[TOKEN]}]{QUESTION[TOKEN + 1 :]}"
    print(f"which examples shaped the late steps of this letter?  {said}")
    print(result.top(5, query=asked, steps=late))
    texts = {row["id"]: "".join(LETTERS[k] for k in row["input_ids"]) for row in documents()}
    for row in result.top(2, query=asked, steps=late):
        print(f"      {row.train}: {texts[row.train]!r}")
    groups = {i: i.split("/")[0] for i in result.labels["train"]}
    with (HERE / "runs" / "documents.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "group"), *groups.items()])
    points = sdi.find_checkpoints(CHECKPOINTS / "step-*.pt")
    by_document = sdi.group_scores(sdi.Store(store), points, groups, queries=[asked])
    print("\nwhich documents?")
    print(by_document.top(5, query=asked, steps=late))
    return result


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=300, help="of training")
    began = time.perf_counter()
    fit(options.parse_args().steps)
    ask()
    print(f"\n{time.perf_counter() - began:.0f} s")
