"""Loaders of tokenised text: one length, ids, any container; one query for each token, which sum to their example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import sdi
from sdi import lm

ROWS = [
    {"id": "a", "input_ids": [1, 2, 3, 4], "source": "x"},
    {"id": "b", "input_ids": [5, 6]},
    {"id": "c", "input_ids": [1, 5, 2]},
]


class LoopedLM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.core, self.head = nn.Embedding(8, 6), nn.Linear(6, 6), nn.Linear(6, 8)
        self.double()

    def forward(self, input_ids: Any) -> Any:
        x = self.embed(input_ids).cumsum(dim=1)
        for _ in range(3):
            x = torch.tanh(self.core(x)) + x
        return self.head(x)


def same(one: Any, other: Any) -> bool:
    return all(
        x.keys() == y.keys() and all(torch.equal(x[k], y[k]) if k != "id" else x[k] == y[k] for k in x)
        for x, y in zip(one, other, strict=True)
    )


def test_batches_are_padded_to_one_length_and_can_be_read_again() -> None:
    loader = lm.token_batches(ROWS, batch_size=2, pad=7)
    first, second = list(loader)
    assert len(loader) == 2
    assert first["id"] + second["id"] == ["a", "b", "c"]
    assert first["input_ids"].tolist() == [[1, 2, 3, 4], [5, 6, 7, 7]]
    assert second["attention_mask"].tolist() == [[1, 1, 1, 0]]
    assert same(loader, list(loader))


def test_containers_of_all_kinds_give_the_same() -> None:
    wanted = list(lm.token_batches(ROWS))
    columns = {key: [row[key] for row in ROWS] for key in ("id", "input_ids")}
    arrays = [{"id": row["id"], "input_ids": np.array(row["input_ids"])} for row in ROWS]
    words = {"a": "1 2 3 4", "b": "5 6", "c": "1 5 2"}
    texts = [{"id": i, "text": text} for i, text in words.items()]

    def tokenizer(text: str) -> dict[str, list[int]]:
        return {"input_ids": [int(word) for word in text.split()]}

    assert same(lm.token_batches(columns), wanted)
    assert same(lm.token_batches(arrays), wanted)
    assert same(lm.token_batches(texts, tokenizer=tokenizer), wanted)
    datasets = pytest.importorskip("datasets")
    assert same(lm.token_batches(datasets.Dataset.from_list(ROWS)), wanted)


def test_labels_are_padded_with_what_does_not_count() -> None:
    rows = [{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}, {"input_ids": [4], "labels": [4]}]
    (batch,) = lm.token_batches(rows)
    assert batch["labels"].tolist() == [[-100, 2, 3], [4, -100, -100]]
    (cut,) = lm.token_batches(rows, max_length=2)
    assert cut["labels"].tolist() == [[-100, 2], [4, -100]]


def test_what_is_no_data_is_refused() -> None:
    for data, words in (
        ([], "at least one example"),
        ([{"x": [1]}], r"a column 'input_ids', or texts and a tokenizer, got \['x'\]"),
        ([{"input_ids": []}], "example 0 of data has no tokens"),
        ([{"input_ids": [1], "labels": [1, 2]}], "labels of example 0 has 2 entries for 1 tokens"),
        ([{"input_ids": [1]}, {"input_ids": [1], "labels": [1]}], "must have the same columns"),
        ([3], "got a list of int"),
        (3, "got 3"),
        ({"a": [1], "b": [1, 2]}, r"must have one length, got \[1, 2\]"),
    ):
        with pytest.raises(ValueError, match=words):
            list(lm.token_batches(data))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"columns": ["id"]}, r"columns must keep 'input_ids', got \['id'\]"),
        ({"max_length": 0}, "max_length must be at least 1, got 0"),
        ({"max_length": "4"}, "max_length must be an integer, got '4'"),
        ({"pad": "<pad>"}, "pad must be an integer, got '<pad>'"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
    ],
)
def test_arguments_that_make_no_batches_are_refused(changes: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{words}$"):
        lm.token_batches(ROWS, **changes)
    with pytest.raises(ValueError, match=r"^batch_size must be at least 1, got 0$"):
        lm.per_token([], batch_size=0)


def test_a_tokenizer_that_gives_no_tokens_of_one_text_is_refused() -> None:
    for made, words in (
        ([1, 2], r"tokenizer must return {\"input_ids\": \[...\]} for a text, got a list"),
        ({"input_ids": torch.tensor([[1, 2]])}, r"input_ids of example 0 must be a list of tokens, got \[\[1, 2\]\]"),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^{words}$"):
            lm.token_batches([{"text": "a b"}], tokenizer=lambda text, made=made: made)
    with pytest.raises(ValueError, match=r"^data has no column 'text' of texts, only \['body'\]$"):
        lm.token_batches([{"body": "a b"}], tokenizer=lambda text: {})


def test_a_query_of_a_token_has_all_that_its_example_has() -> None:
    rows = [{"input_ids": [1, 2, 3], "source": "x", "weight": 2}, {"input_ids": [4, 5], "source": "y", "weight": 3}]
    tokens = lm.per_token(lm.token_batches(rows, columns=["input_ids", "source", "weight"]), batch_size=2)
    first, second = tokens
    assert len(tokens) == 2
    assert (first["source"], second["source"]) == (["x", "x"], ["y"])
    assert (first["weight"].tolist(), second["weight"].tolist()) == ([2, 2], [3])
    assert (first["token"].tolist(), second["token"].tolist()) == ([1, 2], [1])


@pytest.mark.slow
def test_each_token_is_a_query_and_they_sum_to_their_example(tmp_path: Path) -> None:
    model = LoopedLM()
    lm.save_checkpoint(tmp_path / "step-1.safetensors", model, 0.5)
    train, query = lm.token_batches(ROWS), lm.token_batches(ROWS[::2], batch_size=1)
    tokens = lm.per_token(query, batch_size=2)
    run: Any = {
        "loss": lm.causal_loss, "loop": sdi.Loop("core", "core"), "checkpoints": tmp_path / "*.safetensors",
        "train": train, "m": None, "dtype": "float64",
    }  # fmt: skip
    whole = sdi.attribute(model, query=query, **run)
    each = sdi.attribute(model, query=tokens, **run)
    assert each.labels["query"] == ("a[1]", "a[2]", "a[3]", "c[1]", "c[2]")
    for name, names in (("a", ["a[1]", "a[2]", "a[3]"]), ("c", ["c[1]", "c[2]"])):
        mean = each.sdi.sel(query=names).mean("query").values
        np.testing.assert_allclose(mean, whole.sdi.sel(query=name).values, rtol=1e-10, atol=1e-15)
    assert np.abs(each.loss.sel(query=["c[1]", "c[2]"]).mean() - whole.loss.sel(query="c")).max() < 1e-12


def test_an_example_without_tokens_to_predict_is_refused_by_name(tmp_path: Path) -> None:
    model = LoopedLM()
    lm.save_checkpoint(tmp_path / "step-1.safetensors", model, 0.5)
    rows = [*ROWS, {"id": "lone", "input_ids": [3]}]
    with pytest.raises(sdi.NonFiniteError, match=r"^the loss of example 'lone' is nan"):
        sdi.attribute(
            model, loss=lm.causal_loss, loop=sdi.Loop("core", "core"), checkpoints=tmp_path / "*.safetensors",
            train=lm.token_batches(rows), query=lm.token_batches(ROWS),
        )  # fmt: skip
