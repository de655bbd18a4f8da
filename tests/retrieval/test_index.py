"""Indexes: what they find is ranked as the store ranks it; a file that is not of what is asked for is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

import sdi
from sdi import Features, SketchMap, Store, StoreError
from sdi.inputs.checkpoints import Checkpoint
from sdi.retrieval.index_file import Index
from sdi.retrieval.retrieve_top import Retriever
from sdi.retrieval.structure import principal_axes
from sdi.seal import HOLE, sealed

pytest.importorskip("faiss")
SKETCH = SketchMap.keep({"w": (10, 3), "b": (5,)})
POINTS = [Checkpoint(Path(f"step-{k}"), eta, f"{k}" * 64) for k, eta in enumerate(({"w": 0.5, "b": 0.1}, 2.0))]
TAU = 4


def make_store(path: Path, dtype: str = "float32", n: int = 600, steps: bool = False, outside: bool = False) -> Store:
    """Gradients near few directions, of sizes that differ much, in shards of which some are read backwards."""
    rng = np.random.default_rng(0)
    store = Store.create(path, SKETCH, {"dtype": dtype})
    spread = 2.0 ** -np.arange(SKETCH.size)[rng.permutation(SKETCH.size)]
    with store.writing():
        for c in POINTS:
            g = rng.standard_normal((n, TAU, SKETCH.size)) * spread * np.exp(rng.standard_normal((n, 1, 1)))
            for k, rows in enumerate(np.array_split(np.arange(n), 3)):
                ids = tuple(f"t-{i}" for i in (rows[::-1] if k == 1 else rows))
                values = g[[int(i[2:]) for i in ids]]
                extra = values[:, 0] / 2 if outside else None
                if not steps:
                    values, extra = values.sum(axis=1), None
                tau = np.full(len(ids), TAU)
                store.append(
                    c.key, "train", Features(values, tau, SKETCH.blocks, SKETCH.label, extra, ids), ["x"] * len(ids)
                )
            phi = rng.standard_normal((3, TAU, SKETCH.size)) * spread
            query = Features(phi, np.full(3, TAU), SKETCH.blocks, SKETCH.label, phi[:, 0] / 3, ("q-0", "q-1", "q-2"))
            store.append(c.key, "query", query, ["x"] * 3)
    return Store(path)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = make_store(tmp_path_factory.mktemp("index") / "s")
    sdi.build_index(made, POINTS)
    return made


def rows(tops: list[sdi.result.ranking.Top]) -> list[Any]:
    return [(top.query, top.steps, [row.train for row in top], [row.tied for row in top]) for top in tops]


def agree(found: Any, wanted: Any) -> None:
    assert rows(found) == rows(wanted)
    for name in ("score", "stderr", "late"):
        numbers = [[getattr(row, name) for top in tops for row in top] for tops in (found, wanted)]
        np.testing.assert_allclose(*numbers, rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"by": "absolute"},
        {"steps": slice(2, 3)},
        {"steps": 4, "k": 3},
        {"stderr": "bound"},
        pytest.param({"each_step": True}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_one_index_answers_every_range_of_steps_as_the_scan_does(store: Store, options: Any) -> None:
    queries = ["q-2", "q-0"]
    agree(sdi.retrieve_top(store, POINTS, queries, **options), sdi.stream_top(store, POINTS, queries, **options))


@pytest.mark.parametrize("by", ["signed", "late"])
def test_an_exact_index_finds_what_the_scan_finds_even_among_few_candidates(tmp_path: Path, by: str) -> None:
    few = make_store(tmp_path / "s", n=40)
    sdi.build_index(few, POINTS, kind="exact")
    wanted = sdi.stream_top(few, POINTS, ["q-0"], 4, by=by)
    agree(sdi.retrieve_top(few, POINTS, ["q-0"], 4, by=by, candidates=5 if by == "signed" else 40), wanted)


@pytest.mark.parametrize(("dtype", "outside"), [("int8", True), ("float16", False)])
def test_ranges_of_training_steps_have_an_index_each(tmp_path: Path, dtype: str, outside: bool) -> None:
    kept = make_store(tmp_path / "s", dtype, n=60, steps=True, outside=outside)
    some: dict[str, Any] = {"train_steps": slice(2, 3)}
    for options in ({}, some):
        sdi.build_index(kept, POINTS, kind="exact", **options)
        agree(sdi.retrieve_top(kept, POINTS, ["q-1"], **options), sdi.stream_top(kept, POINTS, ["q-1"], **options))
    (top,) = sdi.stream_top(kept, POINTS, ["q-1"], k=60, steps=1, **some)
    matrix = sdi.result.score_store.score(kept, POINTS, [r.train for r in top], ["q-1"], "matrix", {})
    wanted = matrix.arrays["by_checkpoint"].sum(axis=0)[:, 0, 1:3, 0].sum(axis=1)
    np.testing.assert_allclose([r.score for r in top], wanted, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose([r.stderr for r in top], matrix.arrays["stderr"][:, 0, 1:3, 0].sum(axis=1), rtol=1e-5)


def test_only_the_examples_that_were_indexed_are_ranked(tmp_path: Path) -> None:
    few = make_store(tmp_path / "s", n=60)
    train = [f"t-{i}" for i in range(59, 10, -1)]
    sdi.build_index(few, POINTS, train)
    agree(sdi.retrieve_top(few, POINTS, ["q-0"], train=train), sdi.stream_top(few, POINTS, ["q-0"], train=train))
    with pytest.raises(StoreError, match=r"is stale: it is of more or fewer training examples than .*: sdi index "):
        sdi.retrieve_top(few, POINTS, ["q-0"])
    other = ["t-0", *train[1:]]
    with pytest.raises(StoreError, match=r"is stale: it is of other training examples than "):
        sdi.retrieve_top(few, POINTS, ["q-0"], train=other)


@pytest.mark.parametrize(
    ("points", "words"), [(POINTS[::-1], "other checkpoints"), ([POINTS[0], Checkpoint(Path("step-1"), 3.0, "1" * 64)],
                                                               "other etas")]
)  # fmt: skip
def test_an_index_of_other_scores_is_refused(store: Store, points: Any, words: str) -> None:
    with pytest.raises(StoreError, match=rf"is stale: it is of {words} than what is asked for; build it: sdi index"):
        sdi.retrieve_top(store, points, ["q-0"])


def test_a_store_without_an_index_or_with_anothers_says_what_to_do(store: Store, tmp_path: Path) -> None:
    other = make_store(tmp_path / "s", "float16", n=600)
    with pytest.raises(StoreError, match=r"index.safetensors is not there: no index has been built; build it: sdi in"):
        sdi.retrieve_top(other, POINTS, ["q-0"])
    (other.path / "index.safetensors").write_bytes((store.path / "index.safetensors").read_bytes())
    with pytest.raises(StoreError, match="is stale: it is of another store, or one that was begun anew, than"):
        sdi.retrieve_top(other, POINTS, ["q-0"])


def test_a_flipped_bit_anywhere_and_a_cut_are_noticed(store: Store, tmp_path: Path) -> None:
    path, content = tmp_path / "index.safetensors", (store.path / "index.safetensors").read_bytes()
    of, size = load(store.path / "index.safetensors").of, 2 * SKETCH.size
    places = [0, 9, 60, *range(100, len(content), len(content) // 40), len(content) - 1]
    for harmed in [content[:n] + bytes([content[n] ^ 1]) + content[n + 1 :] for n in places] + [
        content[:-1],
        b"",
        b"{",
    ]:
        path.write_bytes(harmed)
        with pytest.raises(StoreError, match=r"was truncated or altered; again$"):
            Index.load(path, of, size, "again")


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("codes", lambda x: x[:-1], "codes are uint8 of shape"),
        ("codes", lambda x: x.astype(np.float32), "codes are float32"),
        ("centroids", lambda x: x * np.nan, "centroids are not finite"),
        ("axes", lambda x: x[:, :7], "it has 7 axes"),
        ("digests", lambda x: x[:, :1], "it lacks digests"),
        ("more", lambda x: np.ones(3), "it holds"),
    ],
)
def test_arrays_that_a_stranger_sealed_are_checked_before_faiss_has_them(
    store: Store, tmp_path: Path, name: str, change: Any, words: str
) -> None:
    path, made = tmp_path / "index.safetensors", load(store.path / "index.safetensors")
    arrays = {**made.arrays, "digests": made.digests}
    arrays[name] = np.ascontiguousarray(change(arrays.get(name)))
    meta = json.dumps({"sha256": HOLE, "version": 1, "kind": "compressed", "of": made.of})
    path.write_bytes(sealed(save(arrays, metadata={"sdi": meta})))
    with pytest.raises(StoreError, match=rf"is not an index of sdi: {words}.*; again$"):
        Index.load(path, made.of, 2 * SKETCH.size, "again")


def load(path: Path) -> Index:
    arrays = load_file(path)
    header = path.read_bytes()[8:]
    meta = json.loads(json.JSONDecoder().raw_decode(header.decode("latin1"))[0]["__metadata__"]["sdi"])
    return Index(meta["kind"], {k: v for k, v in arrays.items() if k != "digests"}, arrays["digests"], meta["of"])


def test_a_row_that_was_altered_since_is_refused_and_whole_shards_are_not_read(tmp_path: Path) -> None:
    harmed = make_store(tmp_path / "s", n=60)
    sdi.build_index(harmed, POINTS, kind="exact")
    (best,) = sdi.retrieve_top(harmed, POINTS, ["q-0"], 3)
    first = best.rows[0].train
    row = harmed.rows(POINTS[0].key, "train")[first]
    content = bytearray(row.shard.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little") + row.row * SKETCH.size * 4
    content[start] ^= 1
    row.shard.write_bytes(content)
    fresh = Store(harmed.path)
    with pytest.raises(StoreError, match=rf"the row of train example '{first}' in .* is not the one that was indexed"):
        sdi.retrieve_top(fresh, POINTS, ["q-0"], 3)
    assert all(shard.parent.name == "query" for shard in fresh._checked)
    row.shard.write_bytes(content[: start - 8])
    with pytest.raises(StoreError, match=r"is not the one that was indexed: one of the two was altered; build it"):
        sdi.retrieve_top(Store(harmed.path), POINTS, ["q-0"], 3)


def test_an_index_is_made_alike_every_time(tmp_path: Path) -> None:
    made = make_store(tmp_path / "s", n=60)
    sdi.build_index(made, POINTS, width=8)
    first = (made.path / "index.safetensors").read_bytes()
    index = sdi.build_index(made, POINTS, width=8)
    assert (made.path / "index.safetensors").read_bytes() == first
    assert index.arrays["codes"].shape == (60, 4)
    assert len(index) == 60


def test_axes_are_those_of_the_most_length() -> None:
    x = np.random.default_rng(0).standard_normal((50, 6)) * np.array([1, 9, 1e-3, 4, 1e-3, 1e-3])
    axes = principal_axes(x, 3)
    assert axes.shape == (6, 4)
    np.testing.assert_allclose(np.square(axes[:, :3]).sum(axis=1), [1, 1, 0, 1, 0, 0], atol=1e-3)
    assert principal_axes(x[:1], 4)[:, 1:].any() == np.False_


def test_wrong_arguments_are_refused(store: Store) -> None:
    for options, words in (
        ({"kind": "fast"}, r"kind must be one of \('compressed', 'exact'\), got 'fast'"),
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"train": ["t-0", "no"]}, "no train example 'no' among the 600 stored"),
        ({"train_steps": 2}, "train_steps must be None; featurize with mode 'matrix'"),
        ({"train_steps": 9}, "steps must lie within 1 to 4"),
    ):
        with pytest.raises(ValueError, match=words):
            sdi.build_index(store, POINTS, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="candidates must be more than k=10, got 10"):
        sdi.retrieve_top(store, POINTS, ["q-0"], candidates=10)


def test_an_index_that_misses_the_best_shows_only_what_it_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Retriever(store, POINTS)
    monkeypatch.setattr(asked.index.searcher, "search", lambda vectors, count: [np.arange(20)] * len(vectors))
    (top,) = asked.top(["q-0"])
    assert {row.train for row in top} <= set(asked.ids[:20])
