"""spread=True: a run finds its widths once, keeps them in its store, and spends no more bytes than one m would."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from attribution_cases import LOOP, QUERY, TRAIN, World, assert_same_result, counting, make_batches, make_model, world

import sdi
import sdi.run.spread_pilot
from sdi import SketchMap, Store
from sdi.fast import body_shapes, featurize, token_cross_entropy
from sdi.run.spread import best_widths, costs

__all__ = ["world"]


def costs_of(world: World) -> dict[str, float]:
    """By the definition: of the first batch, summed over the two checkpoints with eta squared."""
    shapes = body_shapes(world.model, world.loop)
    batch = {key: x for key, x in TRAIN[0].items() if key != "id"}
    sketch = SketchMap.draw(shapes, 256, -1)
    total = dict.fromkeys(shapes, 0.0)
    for eta, model in zip((0.5, 0.25), world.points, strict=True):
        for name, cost in costs(featurize(model, token_cross_entropy, batch, loop=world.loop, sketch=sketch)).items():
            total[name] += eta**2 * cost
    return total


def widths_of(world: World, m: int = 32) -> dict[str, int]:
    sizes = {name: prod(shape) for name, shape in body_shapes(world.model, world.loop).items()}
    return best_widths(costs_of(world), sizes, m)


@pytest.mark.slow
def test_it_is_a_run_with_the_widths_of_the_first_batch(world: World) -> None:
    widths = widths_of(world)
    assert len(set(widths.values())) > 2
    shapes = body_shapes(world.model, world.loop)
    assert SketchMap.draw(shapes, widths).size <= SketchMap.draw(shapes, 32).size
    with counting(sdi.run.spread_pilot, "best_widths", lambda cost, *rest: cost) as seen:
        spent = world.attribute(spread=True)
    assert seen == [pytest.approx(costs_of(world), rel=1e-9)]
    assert_same_result(spent, world.attribute(m=widths), rtol=0)


@pytest.mark.slow
def test_the_store_keeps_the_widths(world: World) -> None:
    """Whatever batch comes first when the run goes on, with whatever is added."""
    first = world.attribute(spread=True, store=world.store)
    with counting(sdi.run.spread_pilot, "pilot_widths") as pilots:
        again = world.attribute(spread=True, store=world.store)
        more = world.attribute(spread=True, store=world.store, train=[*make_batches(4, "new", seed=9), *TRAIN])
    assert not pilots
    assert_same_result(again, first, rtol=0)
    np.testing.assert_array_equal(more.sdi.values[4:], first.sdi.values)
    assert dict(Store(world.store).sketch.recipe["m"]) == widths_of(world)


@pytest.mark.slow
def test_repeats_share_the_widths(world: World) -> None:
    with counting(sdi.run.spread_pilot, "pilot_widths") as pilots:
        world.attribute(spread=True, store=world.store, repeats=2)
    assert len(pilots) == 1
    one, two = (Store(world.store / f"seed-{k}").sketch for k in (0, 1))
    assert one.recipe["m"] == two.recipe["m"]
    assert one != two


def test_a_large_first_batch_is_not_run_whole(world: World) -> None:
    with counting(sdi.run.spread_pilot, "take_examples", lambda batch, rows, n: (rows, n)) as taken:
        world.attribute(spread=True, train=make_batches(13, "t", seed=4, size=13))
    assert taken == [(slice(0, 8), 13)]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"spread": True}, {"m": 16, "spread": True}),
        ({"spread": True}, {"spread": False}),
        ({}, {"spread": True}),
    ],
)
def test_a_store_spread_otherwise_is_refused(world: World, before: dict[str, Any], now: dict[str, Any]) -> None:
    world.attribute(store=world.store, **before)
    with pytest.raises(sdi.StoreError, match=r"spread|sketch"):
        world.attribute(store=world.store, **now)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m": None}, "^m must be one width where spread divides its bytes, got None$"),
        ({"m": {"w": 3}}, "^m must be one width where spread divides its bytes, got {'w': 3}$"),
        ({"backend": "exact"}, "^spread must be false with backend 'exact', which takes no sketches$"),
        ({"train": iter(TRAIN)}, "^train must be a list or a DataLoader"),
        ({"train": []}, "^train gave no examples; it must be a list or a DataLoader that is not empty$"),
    ],
)
def test_what_cannot_be_spread_is_refused(world: World, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        world.attribute(spread=True, query=QUERY, store=None, **options)


@pytest.mark.slow
def test_by_default_the_bytes_of_one_m_are_spread(world: World) -> None:
    found = world.attribute(spread=None)
    assert_same_result(found, world.attribute(spread=True))
    assert found.info["settings"]["spread"] is True
    assert world.attribute(spread=False).info["settings"]["spread"] is False


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"m": None},
        {"m": dict.fromkeys(body_shapes(make_model(), LOOP), 9)},
        {"sketch": "sparse"},
        {"family": "polynomial"},
        {"backend": "exact"},
    ],
)
def test_by_default_what_cannot_be_spread_or_has_no_rule_is_not(world: World, options: dict[str, Any]) -> None:
    found = world.attribute(spread=None, **options)
    assert found.info["settings"]["spread"] is False
    assert_same_result(found, world.attribute(spread=False, **options))


def test_by_default_an_iterator_is_read_once_and_not_spread(world: World) -> None:
    one = world.paths[:1]
    found = world.attribute(spread=None, checkpoints=one, train=iter(TRAIN), query=iter(QUERY))
    assert_same_result(found, world.attribute(spread=False, checkpoints=one))


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("repeats", [1, 2])
def test_by_default_a_store_stays_as_it_was_begun(world: World, before: bool, repeats: int) -> None:
    first = world.attribute(spread=before, store=world.store, repeats=repeats)
    again = world.attribute(spread=None, store=world.store, repeats=repeats)
    assert_same_result(again, first)
    assert again.info["settings"]["spread"] is before
