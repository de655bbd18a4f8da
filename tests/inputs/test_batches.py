"""Loaders and batches: examples are named, matched by name, and never mixed up."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from attribution_cases import (
    QUERY,
    TRAIN,
    Shuffled,
    World,
    assert_close,
    assert_same_result,
    counting,
    featurized,
    flat,
    make_batches,
    world,
)

import sdi
from sdi import StoreError
from sdi.inputs.batches import Examples, name_examples, take_examples
from sdi.inputs.checkpoints import Checkpoint, find_checkpoints
from sdi.sketch.sketch_map import Block

__all__ = ["world"]
Pair = namedtuple("Pair", "x y")
X = torch.arange(6.0).reshape(3, 2)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["fast", "exact"])
def test_an_order_that_changes_between_checkpoints_changes_nothing(world: World, backend: str) -> None:
    wanted = world.attribute(backend=backend)
    result = world.attribute(backend=backend, train=Shuffled(TRAIN), query=Shuffled(QUERY))
    assert result.labels == wanted.labels
    assert_close(result.sdi.values, wanted.sdi.values)
    assert_close(result.by_checkpoint.values, wanted.by_checkpoint.values)
    assert_close(result.loss.values, wanted.loss.values)


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda ids: torch.tensor([int(i) for i in ids])])
def test_ids_may_come_as_lists_tuples_arrays_and_tensors(kind: Any) -> None:
    assert name_examples({"x": X, "id": kind(["3", "14", "15"])}).ids == ("3", "14", "15")


def test_without_ids_the_content_names_the_example() -> None:
    a, b = name_examples({"x": X}), name_examples({"x": X.flip(0)})
    assert a.ids == b.ids[::-1] == a.contents
    assert len(set(a.ids)) == 3
    assert name_examples({"x": X[:1]}).ids == a.ids[:1]
    assert name_examples({"x": X, "id": ["a", "b", "c"]}).contents == a.contents


@pytest.mark.parametrize(
    "other",
    [
        {"x": X + 1},
        {"y": X},
        {"x": X.double()},
        {"x": X.reshape(3, 1, 2)},
        {"x": X, "steps": 4},
        {"x": X, "scale": torch.tensor(2.0)},
        {"x": X, "table": torch.ones(5)},
        {"x": X, "text": ["a", "b", "c"]},
    ],
)
def test_whatever_a_loss_could_read_is_part_of_the_content(other: dict[str, Any]) -> None:
    plain = {"x": X}
    assert not set(name_examples(plain).contents) & set(name_examples(other).contents)
    assert name_examples(other).contents == name_examples(dict(other)).contents
    key, value = list(other.items())[-1]
    changed = {**other, key: value[::-1] if isinstance(value, list) else value + 1}
    assert name_examples(changed).contents[0] != name_examples(other).contents[0]


def test_a_type_that_numpy_lacks_has_content_too() -> None:
    assert len(set(name_examples({"x": X.bfloat16()}).contents)) == 3


def test_some_examples_of_a_batch_are_cut_from_all_that_has_rows() -> None:
    batch = {
        "x": X,
        "pair": Pair(X + 1, np.arange(3)),
        "nested": [X, (X, 5)],
        "text": ["a", "b", "c"],
        "table": torch.ones(4),
        "words": ["one", "two"],
    }
    cut = take_examples(batch, [2, 0], 3)
    assert torch.equal(cut["x"], X[[2, 0]])
    assert isinstance(cut["pair"], Pair)
    assert cut["pair"].y.tolist() == [2, 0]
    assert torch.equal(cut["nested"][1][0], X[[2, 0]])
    assert (cut["nested"][1][1], cut["text"], cut["words"], len(cut["table"])) == (5, ["c", "a"], ["one", "two"], 4)


def test_a_batch_keeps_its_type() -> None:
    class Own(dict[str, Any]):
        pass

    batch = Own(x=X)
    assert name_examples(batch).batch is batch
    assert isinstance(take_examples(OrderedDict(x=X), [0], 3), dict)
    assert name_examples(X).ids == name_examples(X).contents
    assert isinstance(name_examples((X, X)), Examples)


@pytest.mark.parametrize("ids", [["a", "b"], "abc", 7, ["a"] * 4, set("abc"), frozenset("abc"), dict.fromkeys("abc")])
def test_ids_that_do_not_fit_are_refused(ids: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^the batch's 'id' must be a list with an id for each of its 3 examples, got "
    ):
        name_examples({"x": X, "id": ids})


def one_row(ids: Any) -> sdi.Features:
    return sdi.Features(np.ones((1, 1)), np.ones(1, int), (Block("w", (1,), 0, 1),), "s", ids=ids)


@pytest.mark.parametrize("bad", [None, b"a", bytearray(b"a"), np.bytes_(b"a"), object(), torch.zeros(2), {"a", "b"}])
def test_an_id_without_a_text_of_its_own_is_refused(bad: Any) -> None:
    for use in (lambda: name_examples({"x": X, "id": ["a", bad, "c"]}), lambda: one_row((bad,))):
        with pytest.raises(ValueError, match=r"^the id of an example must be a text or a number, got "):
            use()


@pytest.mark.parametrize("ids", [{"a"}, frozenset("a"), "a"])
def test_ids_as_a_set_have_no_order_and_are_refused(ids: Any) -> None:
    with pytest.raises(ValueError, match=r"^ids must be a list, in the order of the examples, got "):
        one_row(ids)


@pytest.mark.parametrize("side", ["train", "query"])
@pytest.mark.parametrize("backend", ["fast", "exact"])
def test_a_single_batch_in_place_of_a_list_is_refused(world: World, side: str, backend: str) -> None:
    for batch, kind in ((TRAIN[0], "dict"), (TRAIN[0]["tokens"], "Tensor")):
        words = rf"^{side} must be a list of batches or a DataLoader, got a single batch \({kind}\): write \[batch\]$"
        with pytest.raises(ValueError, match=words):
            world.attribute(**{side: batch}, backend=backend)


@pytest.mark.parametrize("backend", ["fast", "exact"])
def test_what_is_no_loader_is_refused(world: World, backend: str) -> None:
    with pytest.raises(ValueError, match=r"^train must be a list of batches or a DataLoader, got None$"):
        world.attribute(train=None, backend=backend)


def test_entries_of_lists_are_told_apart_where_one_ends_and_the_next_begins() -> None:
    a = name_examples({"a": [1, 12], "b": [23, 3], "y": np.zeros(2)})
    assert a.contents[0] != a.contents[1]
    assert name_examples({"x": X}).contents[0] == "930739db567dd44d"  # those of arrays stay what they were


@pytest.mark.parametrize("batch", [{}, {"x": 3}, None, {"x": ["a"]}])
def test_a_batch_without_arrays_is_refused(batch: Any) -> None:
    with pytest.raises(ValueError, match=r"^a batch must hold an array whose first axis counts examples, got "):
        name_examples(batch)


@pytest.mark.parametrize("backend", ["fast", "exact"])
@pytest.mark.parametrize("side", ["train", "query"])
def test_an_empty_loader_is_refused(world: World, side: str, backend: str) -> None:
    store = None if backend == "exact" else world.store
    with pytest.raises(
        ValueError, match=f"^{side} gave no examples; it must be a list or a DataLoader that is not empty"
    ):
        world.attribute(**{side: []}, backend=backend, store=store)
    assert not world.store.exists()


@pytest.mark.parametrize(
    "query",
    [[], [QUERY[0], QUERY[0]], QUERY[0], [{**QUERY[0], "id": ["q-0"]}]],
    ids=["empty", "twice", "one batch", "too few ids"],
)
@pytest.mark.parametrize("options", [{}, {"spread": True, "m": 8}, {"repeats": 2}, {"backend": "exact"}], ids=repr)
def test_a_query_side_that_is_refused_is_refused_before_anything_is_made(
    world: World, query: Any, options: dict[str, Any]
) -> None:
    store = None if "backend" in options else world.store
    with (
        featurized() as calls,
        counting(Checkpoint, "weights") as loads,
        pytest.raises(ValueError, match=r"^query|'id'"),
    ):
        world.attribute(query=query, store=store, **options)
    assert not calls
    assert not loads
    assert not world.store.exists()


@pytest.mark.slow
def test_a_batch_without_examples_adds_nothing(world: World) -> None:
    none = {key: value[:0] for key, value in TRAIN[0].items()}
    for backend in ("fast", "exact"):
        result = world.attribute(train=[none, *TRAIN], query=[*QUERY, none], backend=backend)
        assert_same_result(result, world.attribute(backend=backend))


@pytest.mark.parametrize("side", ["train", "query"])
@pytest.mark.parametrize("backend", ["fast", "exact"])
def test_a_generator_is_refused_before_anything_is_made_where_it_must_be_read_again(
    world: World, side: str, backend: str
) -> None:
    words = f"^{side} must be a list or a DataLoader, .* 2 checkpoints .*got a generator, .* write list"
    with featurized() as calls, pytest.raises(ValueError, match=words):
        world.attribute(**{side: (batch for batch in TRAIN)}, backend=backend)
    with pytest.raises(ValueError, match=f"^{side} must be a list .* 1 checkpoints and 2 repeats"):
        world.attribute(**{side: (batch for batch in TRAIN)}, checkpoints=world.paths[0], repeats=2)
    assert not calls


def test_a_generator_serves_for_one_checkpoint(world: World) -> None:
    first = world.attribute(checkpoints=world.paths[0], train=iter(TRAIN), query=iter(QUERY))
    assert_same_result(first, world.attribute(checkpoints=world.paths[0]))


@pytest.mark.parametrize("same", [True, False])
def test_an_id_that_comes_twice_is_refused(world: World, same: bool) -> None:
    again = TRAIN[0] if same else make_batches(1, "t", seed=9)[0]
    words = f"^train holds example 't-0' twice, with {'the same' if same else 'other'} content; give each example an id"
    with pytest.raises(ValueError, match=words):
        world.attribute(train=[*TRAIN, again])
    nameless = {k: v for k, v in TRAIN[0].items() if k != "id"}
    with pytest.raises(ValueError, match="twice, with the same content"):
        world.attribute(train=[nameless, nameless])


def test_one_id_may_stand_on_both_sides(world: World) -> None:
    assert world.attribute(query=TRAIN).sdi.shape == (7, 7, 3)


def test_an_id_with_other_content_than_was_stored_is_refused(world: World) -> None:
    world.attribute(store=world.store)
    with pytest.raises(
        StoreError,
        match=r"^query example 'q-0' has other content than when it was stored; give",
    ):
        world.attribute(store=world.store, query=make_batches(1, "q", seed=5))


@pytest.mark.parametrize("backend", ["fast", "exact"])
def test_other_examples_at_another_checkpoint_are_refused(world: World, backend: str) -> None:
    class Growing:
        times = 0

        def __iter__(self) -> Iterator[Any]:
            self.times += 1
            return iter(TRAIN[: self.times])

    words = "^train must give the same examples whenever it is read; 't-3' is there only at times$"
    with pytest.raises(ValueError, match=words):
        world.attribute(train=Growing(), backend=backend)


class Renumbered(Shuffled):
    """Names examples by their places."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        place = 0
        for batch in super().__iter__():
            n = len(batch["id"])
            yield batch | {"id": list(range(place, place + n))}
            place += n


@pytest.mark.parametrize("side", ["train", "query"])
@pytest.mark.parametrize("changes", [{}, {"backend": "exact"}, {"repeats": 2}])
def test_ids_that_name_places_in_a_shuffled_loader_are_refused(world: World, side: str, changes: Any) -> None:
    loader = Renumbered(TRAIN)
    if "repeats" in changes:
        changes = {**changes, "checkpoints": world.paths[0]}
    words = rf"^{side} example '\d' has other content when it is read again; ids must name examples, not places"
    with pytest.raises(ValueError, match=words):
        world.attribute(**{side: loader}, **changes)
    assert loader.times == (3 if side == "query" else 2)  # queries are looked at once before all


class Repadded(Shuffled):
    """Pads each batch to its longest: at every pass, in other company."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in super().__iter__():
            n = len(batch["id"])
            yield batch | {"note": torch.zeros(n, self.times + n, dtype=torch.long)}


@pytest.mark.slow
def test_an_example_may_be_padded_otherwise_at_another_checkpoint(world: World) -> None:
    loader = Repadded(TRAIN)
    result = world.attribute(train=loader)
    assert loader.times == 2
    plain = world.attribute()
    np.testing.assert_allclose(result.sdi.values, plain.sdi.values, rtol=1e-12)


def test_an_id_that_names_another_example_at_another_checkpoint_is_not_stored(world: World) -> None:
    with pytest.raises(ValueError, match="ids must name examples"):
        world.attribute(train=Renumbered(TRAIN), store=world.store)
    ids = [str(k) for k in range(7)]
    store, points = sdi.Store(world.store), find_checkpoints(world.paths)
    assert [list(store.rows(p.key, "train")) for p in points] == [ids, []]


@pytest.mark.slow
def test_only_the_missing_examples_of_a_batch_are_made(world: World) -> None:
    half = [{k: v[:1] for k, v in TRAIN[0].items()}]
    world.attribute(store=world.store, train=half)
    with featurized() as calls:
        result = world.attribute(store=world.store)
    assert flat(calls) == 2 * [f"t-{k}" for k in range(1, 7)]
    assert_same_result(result, world.attribute(), rtol=1e-12)
