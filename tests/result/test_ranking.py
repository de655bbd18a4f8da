"""top: who acts most, by sign, size or lateness; the stream over shards says the same as the dense result."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attribution_cases import CONFIG, TRAIN, Shuffled, World, make_batches, make_model, ragged, save_checkpoint, world
from result_cases import TAU, N, make_result

from sdi import Loop, Result, Store, stream_top
from sdi.inputs.checkpoints import find_checkpoints
from sdi.result import train_blocks as blocks_of
from sdi.result.best import Best
from sdi.result.ranking import Top

__all__ = ["world"]


def names(top: Top) -> list[str]:
    return [row.train for row in top]


def test_a_long_id_is_cut_where_it_is_printed_and_whole_in_its_row() -> None:
    result = make_result()
    labels = {**result.labels, "train": ("x" * 400, "", *result.labels["train"][2:])}
    top = Result(result.mode, labels, result.arrays, result.info).top(N, query="q-0")
    assert max(map(len, str(top).splitlines())) < 150
    assert "x" * 59 + "…  " in str(top)
    assert "''" in str(top)
    assert "x" * 400 in names(top)


def test_signed_is_largest_first() -> None:
    result = make_result()
    top = result.top(3, query="q-0")
    scores = result.tracin.values[:, 0]
    assert names(top) == [f"t-{i}" for i in np.argsort(-scores)[:3]]
    assert [row.score for row in top] == sorted(scores, reverse=True)[:3]
    assert [row.rank for row in top] == [1, 2, 3]
    assert all(row.stderr == 1.0 for row in top)


def test_absolute_is_by_size_and_keeps_the_sign() -> None:
    result = make_result()
    top = result.top(N, query="q-2", by="absolute")
    scores = result.tracin.values[:, 2]
    assert [row.score for row in top] == [scores[i] for i in np.argsort(-np.abs(scores))]
    assert min(row.score for row in top) < 0


@pytest.mark.parametrize(
    ("steps", "rows", "words"),
    [
        (slice(2, 3), slice(1, 3), "steps 2 to 3 of 4"),
        (3, slice(2, 3), "step 3 of 4"),
        (np.int64(3), slice(2, 3), "step 3 of 4"),
        (slice(None, 2), slice(0, 2), "steps 1 to 2 of 4"),
        (slice(3, None), slice(2, 4), "steps 3 to 4 of 4"),
    ],
)
def test_steps_count_from_one_with_both_ends(steps: Any, rows: slice, words: str) -> None:
    result = make_result()
    top = result.top(N, query="q-0", steps=steps)
    wanted = result.sdi.values[:, 0, rows].sum(axis=-1)
    np.testing.assert_allclose([row.score for row in top], sorted(wanted, reverse=True))
    first = int(top.rows[0].train[2:])
    np.testing.assert_allclose(top.rows[0].stderr, result.stderr.values[first, 0, rows].sum())
    assert top.steps == words


@pytest.mark.parametrize("steps", [0, 5, slice(0, 2), slice(2, 5), slice(3, 2), slice(1, 4, 2)])
def test_steps_outside_the_loop_are_refused(steps: Any) -> None:
    with pytest.raises(ValueError, match=r"^steps must lie within 1 to 4, first at most last, got "):
        make_result().top(query="q-0", steps=steps)
    with pytest.raises(TypeError, match=r"^steps must be a step or a slice of steps, got 'all'$"):
        make_result().top(query="q-0", steps="all")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["query", "train"])
def test_late_takes_only_examples_that_act_late_by_their_own_tau(mode: str) -> None:
    result = make_result(mode, seed=3)
    kept = 0
    for j in range(3):
        shares = []
        for i in range(N):
            half = (TAU[j] if mode == "query" else np.resize(TAU, N)[i]) // 2 + 1
            size = np.abs(result.sdi.values[i, j])
            shares.append(size[half - 1 :].sum() / size.sum())
        top = result.top(N, query=f"q-{j}", by="late", late=0.6)
        scores = result.tracin.values[:, j]
        wanted = sorted((i for i in range(N) if shares[i] >= 0.6), key=lambda i: -abs(scores[i]))
        assert names(top) == [f"t-{i}" for i in wanted]
        np.testing.assert_allclose([row.late for row in top], [shares[i] for i in wanted])
        kept += len(top)
    assert 0 < kept < 3 * N
    assert len(result.top(query="q-0", by="late", late=1.0)) == 0


def with_scores(scores: list[float], error: float) -> Result:
    """Scores of five examples on the first query, at step 1, with one standard error."""
    result = make_result()
    result.by_checkpoint.values[:] = 0
    result.outside.values[:] = 0
    result.by_checkpoint.values[0, :, 0, 0] = scores
    result.stderr.values[:] = error
    result.tracin_stderr.values[:] = error
    return result


def test_neighbours_within_noise_are_marked() -> None:
    def marks(result: Result, **options: Any) -> list[bool]:
        return [row.tied for row in result.top(5, query="q-0", **options)]

    result = with_scores([10, 9, 5, 4.5, -4.6], error=0.5)  # 1.96 * hypot(0.5, 0.5) = 1.386
    assert marks(result) == [True, False, True, False, False]
    assert marks(result, by="absolute") == [True, False, True, True, False]
    assert [row.score for row in result.top(5, query="q-0", by="absolute")] == [10, 9, 5, -4.6, 4.5]
    assert [row.tied for row in result.top(3, query="q-0")] == [True, False, True]  # with one that is not shown
    assert marks(with_scores([10, 9, 5, 4.5, -4.6], error=0.0)) == [False] * 5
    assert marks(with_scores([1, 1, 1, 1, 1], error=0.0)) == [False] * 5
    assert marks(result, steps=1) == [True, False, True, False, False]
    table = str(result.top(5, query="q-0")).splitlines()
    assert len(table) == 7
    assert table[0] == "query q-0, all steps, by signed"
    assert [line.endswith("~ this and the next might change places") for line in table[2:]] == marks(result)


def test_equal_scores_stay_in_order() -> None:
    assert names(with_scores([1, 2, 1, 2, 1], 0.0).top(5, query="q-0")) == ["t-1", "t-3", "t-0", "t-2", "t-4"]


@pytest.mark.parametrize("mode", ["matrix", "tracin"])
def test_without_a_step_axis_only_whole_scores_can_be_ranked(mode: str) -> None:
    result = make_result(mode)
    top = result.top(2, query="q-1", by="absolute")
    assert len(top) == 2
    assert np.isnan(top.rows[0].late)
    for options in ({"steps": 2}, {"by": "late"}):
        with pytest.raises(
            ValueError, match=f"^steps and by='late' need one step axis; this result has mode='{mode}'$"
        ):
            result.top(query="q-1", **options)


def test_wrong_words_are_refused() -> None:
    result = make_result()
    with pytest.raises(ValueError, match=r"^k must be at least 1, got 0$"):
        result.top(0, query="q-0")
    with pytest.raises(ValueError, match=r"^by must be one of \('signed', 'absolute', 'late'\), got 'size'$"):
        result.top(query="q-0", by="size")
    with pytest.raises(ValueError, match=r"^no query 'q-17' among 3; did you mean 'q-1'"):
        result.top(query="q-17")
    assert len(result.top(100, query="q-0")) == N


@pytest.mark.parametrize("k", [2.0, "3", None, True])
def test_a_k_that_is_no_integer_is_refused(tmp_path: Path, k: Any) -> None:
    with pytest.raises(TypeError, match=rf"^k must be an integer, got {k!r}$"):
        make_result().top(k, query="q-0")
    with pytest.raises(TypeError, match=rf"^k must be an integer, got {k!r}$"):
        make_result().plot(tmp_path / "p.png", k=k)


@pytest.mark.parametrize("by", ["signed", "late"])
@pytest.mark.parametrize("late", ["a", None, True, [0.5], np.nan, 2, -0.1, 50])
def test_a_late_share_that_is_none_is_refused(late: Any, by: str) -> None:
    words = rf"^late must be a number from 0 to 1, got {re.escape(repr(late))}$"
    with pytest.raises((TypeError, ValueError), match=words):
        make_result().top(query="q-0", by=by, late=late)
    assert make_result().top(np.int64(2), query="q-0", late=np.float32(0.5))


def assert_same_top(stream: Top, dense: Top, rtol: float) -> None:
    assert (stream.query, stream.steps, stream.by) == (dense.query, dense.steps, dense.by)
    assert names(stream) == names(dense)
    size = max(abs(row.score) for row in dense) if len(dense) else 0
    for a, b in zip(stream, dense, strict=True):
        assert a.rank == b.rank
        assert a.tied == b.tied
        np.testing.assert_allclose(a.score, b.score, rtol=0, atol=rtol * size)
        np.testing.assert_allclose((a.stderr, a.late), (b.stderr, b.late), rtol=rtol * 100)


ASKED = [
    {"by": by, "steps": steps, "k": k, **({"late": 0.4} if by == "late" else {})}
    for by in ("signed", "absolute", "late")
    for steps, k in ((None, 3), (slice(2, 3), 3), (4, 20))
]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "dtype"), [("query", "float64"), ("query", "float16"), ("matrix", "float64")])
@pytest.mark.parametrize("block", [1, 12000, 64 << 20])
def test_the_stream_is_the_dense_ranking(world: World, monkeypatch: Any, dtype: str, mode: str, block: int) -> None:
    """Ragged queries, two checkpoints whose shards are in different orders, blocks of one row and of many."""
    query, train = ragged(5, "q", 3), make_batches(11, "t", seed=4, size=3)
    options = {"query": query, "train": Shuffled(train), "dtype": dtype, "store": world.store}
    options["shard"] = 4 if block < 20000 else 256  # many shards, or one in two orders
    world.attribute(mode=mode, **options)
    result = world.attribute(**{**options, "train": Shuffled(train), "store": world.folder / "dense", "mode": "query"})
    monkeypatch.setattr(blocks_of, "BLOCK_BYTES", block)
    store, points = Store(world.store), find_checkpoints(world.folder / "ckpt/*.safetensors")
    orders = [list(store.rows(p.key, "train")) for p in points]
    assert orders[0] != orders[1]
    queries = [i for b in query for i in b["id"]]
    for asked in ASKED:
        tops = stream_top(store, points, queries, **asked)
        for q, top in zip(queries, tops, strict=True):
            assert_same_top(top, result.top(query=q, **asked), 1e-12 if dtype == "float64" else 1e-5)
    each = stream_top(store, points, queries, k=3, steps=slice(2, 3), by="absolute", each_step=True)
    places = [(q, t) for q in queries for t in (2, 3)]
    for (q, t), top in zip(places, each, strict=True):
        dense = result.top(3, query=q, steps=t, by="absolute")
        assert_same_top(top, dense, 1e-12 if dtype == "float64" else 1e-5)


@pytest.mark.slow
def test_the_stream_counts_what_enters_outside_the_loop(world: World) -> None:
    config = replace(CONFIG, prelude=1)
    paths = [save_checkpoint(world.folder / f"o/{k}.safetensors", make_model(k, config), 0.5) for k in range(2)]
    world.model = make_model(9, config)
    loop = Loop(["prelude", "core"], "inject", "coda")
    for mode in ("query", "matrix"):
        place = world.folder / mode
        result = world.attribute(checkpoints=paths, loop=loop, store=place, mode=mode)
        tops = stream_top(Store(place), find_checkpoints(paths), ["q-1"], k=7)
        assert_same_top_scores(tops[0], result.top(7, query="q-1"))


def assert_same_top_scores(stream: Top, dense: Top) -> None:
    assert names(stream) == names(dense)
    np.testing.assert_allclose([r.score for r in stream], [r.score for r in dense], rtol=1e-10)
    np.testing.assert_allclose([r.stderr for r in stream], [r.stderr for r in dense], rtol=1e-10)


@pytest.mark.parametrize("by", ["signed", "late"])
def test_the_stream_ranks_only_the_examples_that_are_asked_for(world: World, by: str) -> None:
    world.attribute(store=world.store, shard=2)
    kept = [TRAIN[2], {k: v[1:] for k, v in TRAIN[0].items()}]
    result = world.attribute(store=world.store, train=kept)
    store, points = Store(world.store), find_checkpoints(world.folder / "ckpt/*.safetensors")
    ids = [i for batch in kept for i in batch["id"]]
    (top,) = stream_top(store, points, ["q-0"], k=7, by=by, late=0.1, train=ids)
    assert_same_top(top, result.top(7, query="q-0", by=by, late=0.1), 1e-12)
    assert len(stream_top(store, points, ["q-0"], k=7)[0]) == 7
    with pytest.raises(ValueError, match=r"^no train example 't-9' among the 7 stored; did you mean"):
        stream_top(store, points, ["q-0"], train=["t-0", "t-9"])


def test_the_last_row_may_be_tied_with_one_that_is_not_shown_streamed_as_well(world: World) -> None:
    result = world.attribute(store=world.store)
    store, points = Store(world.store), find_checkpoints(world.folder / "ckpt/*.safetensors")
    marks = []
    for k in range(1, 8):
        dense, (streamed,) = result.top(k, query="q-0"), stream_top(store, points, ["q-0"], k=k)
        whole = result.top(7, query="q-0").rows[:k]
        assert [row.tied for row in streamed] == [row.tied for row in dense] == [row.tied for row in whole]
        marks.append(streamed.rows[-1].tied)
    assert marks[-1] is False  # there is none below
    assert any(marks)


def test_the_stream_reads_no_more_than_a_block_at_once(world: World, monkeypatch: Any) -> None:
    world.attribute(store=world.store, shard=256)
    store, points = Store(world.store), find_checkpoints(world.folder / "ckpt/*.safetensors")
    monkeypatch.setattr(blocks_of, "BLOCK_BYTES", 2 * store.sketch.size * 8)
    blocks = list(blocks_of.train_blocks(store, points))
    assert [len(ids) for ids, _ in blocks] == [2, 2, 2, 1]
    assert all(isinstance(part, np.memmap) for _, parts in blocks for part in parts)  # mapped, not read


def test_the_best_of_blocks_are_the_best_of_all_with_ties_in_order() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 6, (50, 4)).astype(float)
    keys[rng.random(keys.shape) < 0.2] = -np.inf
    places = rng.permutation(50)  # rows come in another order than the natural one of their ids
    for k in (1, 3, 10, 60):
        best = Best(4, k)
        for start in range(0, 50, 7):
            some = places[start : start + 7]
            best.merge(keys[some], [f"t-{i}" for i in some])
        for j, found in enumerate(best.ranked()):
            order = np.argsort(-keys[:, j], kind="stable")[:k]
            assert found == [f"t-{i}" for i in order if keys[i, j] > -np.inf]


@pytest.mark.slow
def test_what_the_stream_cannot_do_is_refused(world: World) -> None:
    world.attribute(store=world.store)
    store, points = Store(world.store), find_checkpoints(world.folder / "ckpt/*.safetensors")
    with pytest.raises(ValueError, match=r"^no query example 'q-7' among the 3 stored; did you mean 'q-"):
        stream_top(store, points, ["q-7"])
    with pytest.raises(ValueError, match=r"^k must be at least 1"):
        stream_top(store, points, ["q-0"], k=0)
    with pytest.raises(ValueError, match=r"^steps must lie within 1 to 3"):
        stream_top(store, points, ["q-0"], steps=4)
    with pytest.raises(TypeError, match=r"^k must be an integer, got '3'$"):
        stream_top(store, points, ["q-0"], k="3")
    with pytest.raises(ValueError, match=r"^late must be a number from 0 to 1, got 2$"):
        stream_top(store, points, ["q-0"], late=2)
    with pytest.raises(ValueError, match=r"^queries must be a list of ids, got \[\], which is empty$"):
        stream_top(store, points, [])
    with pytest.raises(ValueError, match=r"^queries must be a list of ids, got 'q-1'; write \['q-1'\]$"):
        stream_top(store, points, "q-1")
    with pytest.raises(ValueError, match=r"^queries must be a list of ids, got None$"):
        stream_top(store, points, None)
    with pytest.raises(ValueError, match=r"^ids must name each example once, got 'q-1' twice"):
        stream_top(store, points, ["q-1", "q-1"])
    with pytest.raises(ValueError, match=r"^train must be a list of ids, got \[\], which is empty$"):
        stream_top(store, points, ["q-0"], train=[])
    with pytest.raises(ValueError, match=r"^checkpoints must be a list of checkpoints, .*, got \[\], which is empty$"):
        stream_top(store, [], ["q-0"])
    world.attribute(store=world.folder / "total", mode="tracin")
    with pytest.raises(ValueError, match=r"holds queries without steps \(modes 'tracin' and 'train'\)"):
        stream_top(Store(world.folder / "total"), points, ["q-0"])
