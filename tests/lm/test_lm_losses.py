"""Losses of language models against loops by hand: shift, padding, -100, single tokens; and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from sdi import lm

V, T = 7, 5


class Tiny(nn.Module):
    """A causal model: each logit depends on all tokens up to its own."""

    def __init__(self, wrap: Any = lambda logits: logits) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head, self.wrap = nn.Embedding(V, 6), nn.Linear(6, V), wrap
        self.double()

    def forward(self, input_ids: Any, attention_mask: Any = None, use_cache: bool = True) -> Any:
        assert not use_cache
        x = self.embed(input_ids)
        x = x if attention_mask is None else x * attention_mask[..., None]
        return self.wrap(self.head(x.cumsum(dim=1)))


def a_batch(**more: Any) -> dict[str, Any]:
    torch.manual_seed(1)
    ids = torch.randint(0, V, (3, T))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])
    return {"input_ids": ids, "attention_mask": mask, **more}


def by_hand(model: Any, batch: dict[str, Any], causal: bool) -> list[dict[int, float]]:
    """Of each example, the loss of every token that counts, by its place."""
    logits = model(batch["input_ids"], batch["attention_mask"], use_cache=False)
    logits = logits if isinstance(logits, torch.Tensor) else logits[0]
    labels = batch.get("labels", batch["input_ids"])
    found: list[dict[int, float]] = []
    for i in range(len(labels)):
        found.append({})
        for t in range(int(causal), T):
            if batch["attention_mask"][i, t] and labels[i, t] != -100:
                at = logits[i, t - int(causal)].softmax(-1)[labels[i, t]]
                found[-1][t] = -at.log().item()
    return found


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize(("causal", "whole", "each"), [
    (True, lm.causal_loss, lm.causal_token_losses),
    (False, lm.masked_loss, lm.masked_token_losses),
])  # fmt: skip
def test_losses_are_what_loops_say(causal: bool, whole: Any, each: Any, labelled: bool) -> None:
    batch, model = a_batch(), Tiny()
    if labelled or not causal:
        batch["labels"] = torch.where(torch.arange(T) % 2 == 1, batch["input_ids"], -100)
    wanted = by_hand(model, batch, causal)
    tokens = each(model, batch)
    for i, one in enumerate(wanted):
        assert whole(model, batch)[i].item() == pytest.approx(sum(one.values()) / len(one), rel=1e-12)
        for t in range(T):
            assert tokens[i, t].item() == pytest.approx(one.get(t, 0.0), rel=1e-12)
            if t in one:
                alone = {**batch, "token": torch.full((3,), t)}
                assert whole(model, alone)[i].item() == pytest.approx(one[t], rel=1e-12)


@pytest.mark.parametrize(
    "wrap", [lambda x: x, lambda x: (x, None), lambda x: {"logits": x}, lambda x: SimpleNamespace(logits=x)]
)
def test_logits_may_come_in_any_form(wrap: Any) -> None:
    assert torch.equal(lm.causal_loss(Tiny(wrap), a_batch()), lm.causal_loss(Tiny(), a_batch()))


def test_without_labels_torch_agrees_with_its_own_cross_entropy() -> None:
    model, batch = Tiny(), {"input_ids": a_batch()["input_ids"]}
    logits = model(batch["input_ids"], use_cache=False)
    wanted = nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), batch["input_ids"][:, 1:], reduction="none")
    assert torch.allclose(lm.causal_loss(model, batch), wanted.mean(dim=1), rtol=1e-12)


def test_padding_on_either_side_gives_the_loss_of_the_example_without_it() -> None:
    model, ids = Tiny(), torch.tensor([[1, 2, 3]])
    wanted = lm.causal_loss(model, {"input_ids": ids})
    for before, after in ((0, 2), (2, 0), (1, 1)):
        padded = nn.functional.pad(ids, (before, after))
        batch = {"input_ids": padded, "attention_mask": nn.functional.pad(torch.ones_like(ids), (before, after))}
        assert torch.allclose(lm.causal_loss(model, batch), wanted, rtol=1e-12)
        assert (lm.causal_token_losses(model, batch) > 0).nonzero().tolist() == [[0, before + 1], [0, before + 2]]


def test_a_label_or_place_that_there_is_not_is_refused() -> None:
    model = Tiny()
    with pytest.raises(ValueError, match=r"^labels must be a token of the vocabulary, from 0 to 6, got 7$"):
        lm.causal_loss(model, a_batch(labels=torch.full((3, T), 7)))
    for place in (T, -1):
        words = rf"^token must be a place in the example, from 0 to 4, got {place}$"
        with pytest.raises(ValueError, match=words):
            lm.causal_loss(model, a_batch(token=torch.tensor([1, place, 1])))
    with pytest.raises(RuntimeError, match="int64"):  # torch's own error, where no index is out of range
        lm.causal_loss(model, a_batch(labels=torch.ones(3, T)))


def test_an_example_without_a_token_to_predict_is_not_a_zero() -> None:
    batch = a_batch(labels=torch.full((3, T), -100))
    assert lm.causal_loss(Tiny(), batch).isnan().all()
    some = a_batch(token=torch.tensor([0, 4, 1]))
    assert lm.causal_loss(Tiny(), some).isnan().tolist() == [True, True, False]


def test_a_model_that_takes_any_keyword_gets_what_the_batch_has() -> None:
    class Any_(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Tiny()

        def forward(self, *args: Any, **given: Any) -> Any:
            assert not args
            return self.inner(**given, use_cache=False)

    assert torch.equal(lm.causal_loss(Any_(), a_batch()), lm.causal_loss(Tiny(), a_batch()))


def test_what_is_wrong_with_a_batch_is_said() -> None:
    model = Tiny()
    with pytest.raises(ValueError, match=r"^a batch must be a mapping with \"input_ids\", got \['x'\]$"):
        lm.causal_loss(model, {"x": torch.ones(2)})
    with pytest.raises(ValueError, match=r"^a masked loss needs the batch's \"labels\""):
        lm.masked_loss(model, a_batch())
    with pytest.raises(ValueError, match=r"^labels must have the shape of input_ids, \(3, 5\), got \(3, 4\)$"):
        lm.causal_loss(model, a_batch(labels=torch.ones(3, 4, dtype=torch.long)))
    with pytest.raises(ValueError, match=r"^the model must give logits of shape \(3, 5, 'vocabulary'\), got \(3, 5\)$"):
        lm.causal_loss(Tiny(lambda x: x[..., 0]), a_batch())
