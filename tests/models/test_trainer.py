"""Hugging Face's own Trainer: its folders and our callback give weights and learning rates; texts from `datasets`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import AlbertConfig, AlbertForMaskedLM, Trainer, TrainingArguments

import sdi
from sdi import lm


def rows() -> list[dict[str, Any]]:
    rng = torch.Generator().manual_seed(0)
    made = []
    for k in range(8):
        ids = torch.randint(1, 20, (6,), generator=rng).tolist()
        made.append({"id": f"doc-{k}", "input_ids": ids, "labels": [-100 if t % 2 else x for t, x in enumerate(ids)]})
    return made


@pytest.fixture(scope="module")
def trained(tmp_path_factory: Any) -> tuple[Path, Any]:
    place = tmp_path_factory.mktemp("trainer")
    torch.manual_seed(0)
    config = AlbertConfig(
        vocab_size=20, embedding_size=8, hidden_size=16, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = AlbertForMaskedLM(config)
    arguments = TrainingArguments(
        output_dir=str(place / "out"), max_steps=6, per_device_train_batch_size=4, learning_rate=0.01, save_steps=2,
        logging_steps=2, report_to=[], use_cpu=True, lr_scheduler_type="linear", disable_tqdm=True,
    )  # fmt: skip
    data = Dataset.from_list(rows()).remove_columns("id")
    callback = lm.checkpoint_callback(place / "ours", every=2)
    Trainer(model=model, args=arguments, train_dataset=data, callbacks=[callback]).train()
    return place, config


def test_the_callbacks_checkpoints_have_the_rate_their_step_was_taken_with(trained: Any) -> None:
    place, _ = trained
    points = sdi.find_checkpoints(place / "ours" / "step-*.safetensors")
    assert [p.path.stem for p in points] == ["step-2", "step-4", "step-6"]
    assert [p.eta for p in points] == pytest.approx([0.01 * (1 - k / 6) for k in (1, 3, 5)])


def test_trainers_folders_are_read_with_their_rate_and_attributed(trained: Any) -> None:
    place, config = trained
    points = sdi.find_checkpoints(place / "out" / "checkpoint-*")
    assert [p.path.name for p in points] == ["checkpoint-2", "checkpoint-4", "checkpoint-6"]
    ours = sdi.find_checkpoints(place / "ours" / "step-*.safetensors")
    for one, other in zip(points, ours, strict=True):
        mine, theirs = other.weights(), one.weights()
        assert all(torch.equal(mine[name], value) for name, value in theirs.items())
    assert all(0 <= p.eta <= 0.01 for p in points)
    assert [p.eta for p in points] == sorted((p.eta for p in points), reverse=True)
    model = AlbertForMaskedLM(config).eval()
    loader = lm.token_batches(Dataset.from_list(rows()), batch_size=4)
    (batch,) = lm.token_batches(rows()[:2])
    loop = sdi.find_loops(model, lm.masked_loss, {k: v for k, v in batch.items() if k != "id"})[0].loop
    result = sdi.attribute(
        model, loss=lm.masked_loss, loop=loop, checkpoints=place / "out" / "checkpoint-*", train=loader,
        query=lm.per_token([batch], causal=False), m=64,
    )  # fmt: skip
    assert result.sizes == {"checkpoint": 3, "train": 8, "query": 6, "step": 3}
    assert result.labels["query"][:3] == ("doc-0[0]", "doc-0[2]", "doc-0[4]")
