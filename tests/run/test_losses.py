"""Losses are stored beside features and stand in the result, in every way a run can go."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attribution_cases import QUERY, TRAIN, Shuffled, World, assert_close, assert_same_result, one_batch, world

import sdi
from sdi.fast import token_cross_entropy

__all__ = ["world"]


def own_losses(world: World) -> np.ndarray:
    with torch.no_grad():
        return np.stack([token_cross_entropy(point, one_batch(QUERY)).double().numpy() for point in world.points])


@pytest.mark.parametrize(
    "changes", [{}, {"backend": "exact"}, {"dtype": "float16"}, {"repeats": 2}, {"mode": "tracin"}]
)
def test_the_result_holds_each_querys_loss_at_every_checkpoint(world: World, changes: dict) -> None:
    result = world.attribute(**changes)
    assert_close(result.loss.values, own_losses(world), rtol=1e-12)
    assert result.loss.dims == ("checkpoint", "query")


def test_losses_are_read_back_from_the_store(world: World) -> None:
    first = world.attribute(store=world.store)
    again = world.attribute(store=world.store)
    assert_same_result(first, again)
    np.testing.assert_array_equal(first.loss.values, again.loss.values)
    store = sdi.Store(world.store)
    assert store.read(first.labels["checkpoint"][0], "train", ["t-1", "t-0"]).losses.shape == (2,)


@pytest.mark.slow
def test_rows_are_in_one_order_whatever_the_shuffle(world: World) -> None:
    backwards = [{k: v.flip(0) if k != "id" else v[::-1] for k, v in b.items()} for b in reversed(TRAIN)]
    wanted = world.attribute()
    for train in (backwards, Shuffled(TRAIN)):
        found = world.attribute(train=train, query=Shuffled(QUERY))
        assert found.labels == wanted.labels
        assert_close(found.sdi.values, wanted.sdi.values)
    own = sdi.example_ids(backwards)
    assert own == tuple(reversed(sdi.example_ids(TRAIN)))
    assert world.attribute(train=backwards).sdi.sel(train=list(own)).train.values.tolist() == list(own)


def test_natural_order_counts_numbers_by_their_size() -> None:
    from sdi.inputs.batches import in_order

    assert in_order(["t-10", "t-9", "t-09", "b", "²", "9" * 5000, ""]) == (
        "",
        "9" * 5000,
        "b",
        "t-09",
        "t-9",
        "t-10",
        "²",
    )


@pytest.mark.slow
def test_a_bar_is_drawn_on_a_terminal_and_what_is_no_function_is_refused(world: World, capsys, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes stderr for a terminal
    world.attribute(progress=True)
    assert "checkpoint" in capsys.readouterr().err
    world.attribute(progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(TypeError, match=r"^progress must be True, False or a function of one argument, got 'yes'$"):
        world.attribute(progress="yes")


@pytest.mark.slow
def test_a_changed_body_is_refused_by_its_name_where_bytes_are_spread(world: World) -> None:
    world.attribute(store=world.store, spread=True)
    other = sdi.Loop(body=["core.0.mlp"], step="inject", end="coda")
    with pytest.raises(sdi.StoreError, match=r"(?s)made with other settings.*config\.loop\.body: \['core'.* now"):
        world.attribute(store=world.store, spread=True, loop=other)
