"""Every sketch that ships, and sketches of a user's own, in both backends, in maps, in stores and in runs."""

from __future__ import annotations

import json
import sys
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_attribution_cases import QUERY, World, assert_close, world
from test_fast_cases import D, assert_near, features_of, make, make_xy, row_norms
from torch import nn

import sdi
import sdi.fast
import sdi.reference
from sdi import LinearSketch, Loop, LoopedConfig, Sketch, SketchMap, Store, load_sketch
from sdi.bounds import worst_case
from sdi.checkpoints import find_checkpoints
from sdi.config import read_config, save_run
from sdi.errors import AuditError, SketchMismatch, StoreError
from sdi.fast import memory
from sdi.fast.twin_hadamard import TorchHadamard
from sdi.fast.twin_mask import TorchMask
from sdi.hashing import distinct, distinct_columns, normals, sign_bits
from sdi.sketch_json import RecordedSketch, sketch_from_json, sketch_to_json
from sdi.sketch_kronecker import KroneckerSketch, best_sides
from sdi.sketch_path import SHIPPED, sketch_text
from sdi.sketches import CountSketch, Keep, TensorSketch
from sdi.testing import assert_same_features, make_batch, make_model

__all__ = ["world"]
NAMES = (*SHIPPED, "sparse-1")
EXACT = tuple(name for name in NAMES if name not in ("tensor", "gaussian", "exact"))

MINE = """
import numpy as np
from sdi import LinearSketch
from sdi.hashing import bits, signs_of

class Mine(LinearSketch):
    '''Signed sums of m contiguous parts.'''
    def __init__(self, of, signs, m):
        self.of, self.signs, self.m = tuple(of), signs, m
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls(shape, signs_of(bits(int(np.prod(shape)), seed, name)), m)
    @property
    def shape(self):
        return self.of
    @property
    def size(self):
        return self.m
    def tables(self):
        return {"signs": self.signs}
    def apply(self, x):
        x = x.reshape(*x.shape[: x.ndim - len(self.of)], -1) * self.signs
        cuts = np.linspace(0, x.shape[-1], self.m + 1).astype(int)
        return np.stack([x[..., a:b].sum(-1) for a, b in zip(cuts, cuts[1:])], axis=-1)
    def variance_factor(self):
        return 2.0
"""
CASE = LoopedConfig(vocab=5, classes=3, d=6, heads=2, tau=3, length=4, coda=1, loop_norm=True)
BODY = Loop(body=list(CASE.shapes()), step="inject", end="coda")  # the embedding and what is outside the loop included


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return f"{tmp_path / 'mine.py'}:Mine"


class WithTwin(KroneckerSketch):
    """A user's class with a twin of its own, and twice the features: it must not take its parent's twin."""

    kind = "with_twin"

    def apply(self, x: np.ndarray) -> np.ndarray:
        return 2 * super().apply(x)

    def apply_outer(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return 2 * super().apply_outer(u, v)

    def to_torch(self, device: torch.device, dtype: torch.dtype) -> Any:
        dense = torch.tensor(self.dense(), device=device, dtype=dtype)

        class Twin:
            def apply(self, G: torch.Tensor) -> torch.Tensor:
                return G.flatten(1) @ dense.T

        return Twin()


class Bare:
    """The protocol and nothing else; keeps one number of each parameter, small ones included."""

    keeps_small = False

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.size, self.nbytes = shape, 1, 0

    @classmethod
    def draw(cls, shape: tuple[int, ...], m: int, *, seed: int, name: str) -> Bare:
        return cls(shape)

    def tables(self) -> dict[str, np.ndarray]:
        return {}

    def apply(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(*x.shape[: x.ndim - len(self.shape)], -1)[..., -1:]

    def apply_outer(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (u[..., -1:] * v[..., -1:]).sum(axis=-2)

    def variance_factor(self) -> float:
        return float("inf")


MIXED: dict[str, Any] = {"*.bias": "exact", "core.*": WithTwin, "head.*": "mask", "*": "hadamard"}


def both(sketch: SketchMap, steps: bool, **options: Any) -> tuple[sdi.Features, sdi.Features]:
    model, batch = make_model(CASE, 0), make_batch(CASE, 1)
    fast = sdi.fast.LoopedTransformer(CASE, model.weights).double()
    tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
    ours = sdi.fast.featurize(
        fast, sdi.fast.token_cross_entropy, tensors, loop=BODY, sketch=sketch, steps=steps, memory="hooks", **options
    )
    loss = sdi.reference.token_cross_entropy
    return ours, sdi.reference.featurize(model, loss, batch, loop=BODY, sketch=sketch, steps=steps)


def mixed_and_others(spec: Any, m: int = 5) -> SketchMap:
    return SketchMap.draw(CASE.shapes(), m, 3, sketch=spec)


@pytest.mark.parametrize("spec", [*NAMES, MIXED, WithTwin, Bare], ids=lambda spec: getattr(spec, "__name__", str(spec)))
def test_both_backends_agree_on_vectors_matrices_and_embeddings(spec: Any) -> None:
    sketch = mixed_and_others(spec)
    assert_same_features(*both(sketch, steps=True))
    assert_same_features(*both(sketch, steps=False))


@pytest.mark.parametrize(("spec", "twin"), [("hadamard", TorchHadamard), ("mask", TorchMask)])
@pytest.mark.parametrize("forms", [True, False])
def test_forming_the_gradient_or_not_gives_the_same(
    spec: str, twin: type, forms: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(twin, "forms", lambda self, tokens: forms)
    for cache in (memory.CACHE_BYTES, 400):
        monkeypatch.setattr(memory, "CACHE_BYTES", cache)
        for steps in (True, False):
            assert_same_features(*both(mixed_and_others(spec), steps=steps, audit="off"))


def test_the_cheaper_of_two_routes_is_taken() -> None:
    for cls, name in ((TorchHadamard, "hadamard"), (TorchMask, "mask")):
        for shape, forms in (((128, 128), True), ((768, 3072), False)):
            sketch = load_sketch(name).draw(shape, 2048, seed=0, name="w")  # type: ignore[attr-defined]
            assert cls(sketch, torch.device("cpu"), torch.float32).forms(81) is forms


@pytest.mark.parametrize("spec", ["gaussian", "kronecker", "sparse", WithTwin, Bare])
def test_a_small_workspace_changes_nothing(spec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CACHE_BYTES", 400)
    for steps in (True, False):
        assert_same_features(*both(mixed_and_others(spec), steps=steps, audit="off"))


@pytest.mark.parametrize("spec", [*NAMES, WithTwin, Bare], ids=str)
def test_convolutions_are_sketched_as_matrices(spec: Any) -> None:
    model, batch = make(nn.Sequential(nn.Conv1d(5, 5, 3, padding=1), nn.Linear(D, D))), make_xy()
    dense = features_of(model, batch)
    sketch = SketchMap.draw({b.name: b.shape for b in dense.blocks}, 4, sketch=spec)
    arrays = {b.name: dense.values[..., b.start : b.stop].reshape(3, 3, *b.shape) for b in dense.blocks}
    got = features_of(model, batch, sketch=sketch)
    assert_near(got.values, sketch.apply(arrays), row_norms(dense.values), "sketched", 1e-12)
    assert sketch.sketches["core.0.weight"].shape in ((5, 15), (5, 5, 3))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(7, 5), (9,), (1, 6), (6, 1)])
@pytest.mark.parametrize("m", [1, 6, 100])
def test_apply_outer_dense_and_apply_are_one_map(name: str, shape: tuple[int, ...], m: int) -> None:
    sketch: Any = load_sketch(name).draw(shape, m, seed=1, name="w")  # type: ignore[attr-defined]
    assert isinstance(sketch, Sketch)
    assert (sketch.shape, sketch.apply(np.ones(shape, np.float32)).dtype) == (shape, np.float32)
    assert sketch.size <= max(m, 0 if name != "exact" else prod(shape))
    rng, d_in = np.random.default_rng(0), (*shape, 1)[1]
    u, v = rng.standard_normal((2, 3, 4, shape[0])), rng.standard_normal((2, 3, 4, d_in))
    G = np.einsum("...ti,...tj->...ij", u, v).reshape(2, 3, *shape)
    np.testing.assert_allclose(sketch.apply_outer(u, v), sketch.apply(G), atol=1e-12)
    np.testing.assert_allclose(sketch.apply(G), G.reshape(2, 3, -1) @ sketch.dense().T, atol=1e-12)
    assert sketch.apply_outer(u[:, :, :0], v[:, :, :0]).shape == (2, 3, sketch.size)
    if name in EXACT:
        assert sketch.dense_integers().dtype == np.int64
        np.testing.assert_allclose(sketch.dense_integers() * sqrt(sketch.squared_scale), sketch.dense(), atol=1e-15)


TINY = [
    ("tensor", (2, 2), 2), ("tensor", (3,), 2), ("rademacher", (2, 2), 2), ("kronecker", (2, 3), 2),
    ("sparse", (3,), 2), ("sparse-1", (2, 2), 2), ("hadamard", (2, 2), 2), ("hadamard", (3,), 2), ("mask", (2, 2), 2),
    ("exact", (2, 2), 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "m"), TINY)
def test_what_is_drawn_is_among_all_draws_whose_mean_is_the_identity(name: str, shape: tuple[int, ...], m: int) -> None:
    cls: Any = load_sketch(name)
    listed = list(cls.enumerate_all(shape, m))
    assert sum(p for p, _ in listed) == 1
    gram = np.array([s.dense().T @ s.dense() for _, s in listed])
    weights = np.array([float(p) for p, _ in listed])
    np.testing.assert_allclose(np.tensordot(weights, gram, axes=1), np.eye(prod(shape)), atol=1e-12)
    drawn = {cls.draw(shape, m, seed=seed, name="w").identity for seed in range(40)}
    assert drawn <= {s.identity for _, s in listed}
    assert len(drawn) >= min(len(listed), 15) * (0.5 if name != "mask" else 0.9)
    x = np.ones(prod(shape))
    variance = weights @ (x @ gram @ x) ** 2 - prod(shape) ** 2
    assert variance <= listed[0][1].variance_factor() * prod(shape) ** 2 + 1e-9


def test_the_variance_factors_are_the_closed_forms() -> None:
    def factor(name: str, shape: tuple[int, ...], m: int) -> float:
        return worst_case(load_sketch(name).draw(shape, m, seed=0, name="w"))  # type: ignore[attr-defined]

    for name in ("gaussian", "rademacher", "sparse", "sparse-1"):
        assert factor(name, (9, 9), 8) == 2 / 8
    assert factor("kronecker", (99, 99), 16) == pytest.approx((1 + 2 / 4) ** 2 - 1)
    assert factor("kronecker", (99,), 16) == factor("kronecker", (1, 99), 16) == pytest.approx(2 / 16)
    assert factor("hadamard", (5, 5), 16) == pytest.approx((64 - 16) / 63 * 8 / 16)
    assert factor("hadamard", (5,), 4) == factor("hadamard", (1, 5), 4) == pytest.approx((8 - 4) / 7 * 2 / 4)
    assert factor("mask", (5, 5), 10) == 1.5
    assert factor("exact", (5, 5), 10) == factor("mask", (5, 5), 25) == factor("hadamard", (4, 4), 16) == 0


def test_best_sides_is_what_trying_all_finds() -> None:
    def factor(k: tuple[int, int], d: tuple[int, int]) -> float:
        return prod(1 + (2 / a if a < b else 0) for a, b in zip(k, d, strict=True))

    for d in ((3, 5), (8, 8), (20, 2), (1, 9), (30, 40)):
        for m in (1, 2, 3, 7, 16, 60, 200):
            k = best_sides(d, m)
            assert k[0] * k[1] <= m
            every = [(a, b) for a in range(1, d[0] + 1) for b in range(1, d[1] + 1) if a * b <= m]
            assert factor(k, d) == pytest.approx(min(factor(pair, d) for pair in every))


def test_the_tables_of_the_variants_have_not_changed() -> None:
    """Golden values: features on disk were made with these tables. Change them only together with the version."""
    shapes = {"core.w": (12, 10), "core.b": (20,)}
    assert {name: SketchMap.draw(shapes, 9, 7, sketch=name).identity for name in NAMES} == {
        "tensor": "3da853b26b4c",
        "gaussian": "b924605fb8e0",
        "rademacher": "975d8ccd5d2e",
        "kronecker": "0459016cc898",
        "sparse": "25a72c368698",
        "hadamard": "2f2875ad88df",
        "mask": "46b6586a9391",
        "exact": "f2281194ce1c",
        "sparse-1": "5c07df134558",
    }


def test_distinct_numbers_are_uniform_sets() -> None:
    """All 10 sets of 2 out of 5, 2000 draws: each count within five deviations of 200, by chance wrong once in 10^5."""
    columns = distinct_columns(2000, 2, 5, "any")
    alone = np.array([distinct(2, 5, "any", k) for k in range(2000)])
    for sets in (np.sort(columns, axis=1), alone):
        assert (sets[:, 0] < sets[:, 1]).all()
        counts = np.unique(sets @ (5, 1), return_counts=True)[1]
        assert len(counts) == 10
        assert np.abs(counts - 200).max() < 5 * sqrt(200 * 0.9)
    assert np.array_equal(distinct(7, 7, "w"), np.arange(7))


def test_sign_bits_are_as_many_as_asked_and_fair() -> None:
    """Mean of 10^5: five standard errors, failing by chance once in 10^6."""
    signs = sign_bits(10**5, "w")
    assert set(signs.tolist()) == {-1, 1}
    assert abs(signs.astype(int).sum()) < 5 * sqrt(10**5)
    for count in (1, 63, 64, 65):
        assert np.array_equal(sign_bits(count, "w"), signs[:count])


def test_normals_are_normal_and_on_their_grid() -> None:
    """Moments of 10^5: five standard errors each, failing by chance once in 10^6."""
    x = normals(10**5, 3, "w").astype(np.float64)
    for power, mean in ((1, 0), (2, 1), (3, 0), (4, 3)):
        values = x**power
        assert abs(values.mean() - mean) < 5 * values.std() / sqrt(len(x))
    assert np.array_equal(x * 2**20, np.rint(x * 2**20))
    assert np.array_equal(normals(5, 3, "w"), x[:5])


def test_a_sketch_is_found_by_name_path_file_and_class(mine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_sketch("tensor") is TensorSketch
    assert load_sketch("sdi.sketches:Keep") is load_sketch("exact") is Keep
    assert load_sketch(WithTwin) is WithTwin
    found = load_sketch(mine)
    assert load_sketch(mine) is found
    assert (sketch_text(mine), sketch_text(found), sketch_text({"*": found})) == (
        "mine.py:Mine", "mine.py:Mine", {"*": "mine.py:Mine"},
    )  # fmt: skip
    assert sketch_text(TensorSketch) == "tensor"
    assert (sketch_text(load_sketch("sparse-7")), sketch_text(load_sketch("sparse"))) == ("sparse-7", "sparse")
    assert sketch_text(WithTwin) == f"{WithTwin.__module__}:WithTwin"
    monkeypatch.syspath_prepend(Path(mine.rpartition(":")[0]).parent)
    assert load_sketch("mine:Mine").__name__ == "Mine"
    maps = [SketchMap.draw({"w": (6, 6)}, 5, sketch=spec) for spec in (mine, found, "mine:Mine")]
    assert maps[0] == maps[1] == maps[2]
    del sys.modules["mine"]


def test_a_changed_file_is_run_again_and_may_import_its_neighbours(mine: str) -> None:
    first = load_sketch(mine)
    path = Path(mine.rpartition(":")[0])
    before = list(sys.path)
    (path.parent / "neighbour.py").write_text("factor = 3.0")
    path.write_text("from neighbour import factor" + MINE.replace("return 2.0", "return factor"))
    assert load_sketch(mine) is not first
    assert sys.path == before
    del sys.modules["neighbour"]
    assert SketchMap.draw({"w": (6, 6)}, 5, sketch=mine).sketches["w"].variance_factor() == 3.0


def test_in_a_mixed_map_the_first_pattern_that_matches_counts() -> None:
    shapes = {"core.0.q.weight": (9, 9), "core.0.q.bias": (20,), "core.0.k.weight": (9, 9), "small": (2,)}
    sketch = SketchMap.draw(shapes, 8, sketch={"*.bias": "exact", "*.q.*": "mask", "*": "tensor"})
    kinds = {name: s.kind for name, s in sketch.sketches.items()}  # type: ignore[attr-defined]
    assert list(kinds.values()) == ["mask", "keep", "tensor", "keep"]
    assert sketch.sketches["core.0.k.weight"] == SketchMap.draw(shapes, 8).sketches["core.0.k.weight"]
    assert sketch.label.endswith("(m=8, seed=0, mixed)")
    assert SketchMap.from_json(sketch.to_json()) == sketch
    widths = {"core.0.q.weight": 8, "core.0.q.bias": 4, "core.0.k.weight": 16, "small": 1}
    each = SketchMap.draw(shapes, widths, sketch={"*.bias": "hadamard", "*": "mask"})
    assert [s.size for s in each.sketches.values()] == [8, 4, 16, 1]
    assert SketchMap.from_json(each.to_json()) == each


def test_parameters_of_a_class_that_does_not_keep_small_ones_are_sketched() -> None:
    sketch = SketchMap.draw({"w": (2, 2), "scale": ()}, 9, sketch=Bare)
    assert [type(s) for s in sketch.sketches.values()] == [Bare, Bare]
    assert sketch.apply({"w": np.arange(4.0).reshape(2, 2), "scale": np.array(7.0)}).tolist() == [3.0, 7.0]


@pytest.mark.parametrize("name", NAMES)
def test_json_gives_a_sketch_back_drawn_or_made_by_hand(name: str) -> None:
    shapes = {"w": (6, 5), "b": (9,)}
    drawn = SketchMap.draw(shapes, 4, 2, sketch=name)
    assert name == "tensor" or json.loads(drawn.to_json())["recipe"]["sketch"] == name
    by_hand = SketchMap(drawn.sketches, shapes)
    for sketch in (drawn, by_hand):
        back = SketchMap.from_json(json.dumps(json.loads(sketch.to_json())))
        assert back == sketch
        x = {k: np.ones(shape) for k, shape in shapes.items()}
        np.testing.assert_array_equal(back.apply(x), sketch.apply(x))
    for sketch in drawn.sketches.values():
        assert type(sketch_from_json(sketch_to_json(sketch))) is type(sketch)


def test_the_identity_sees_kind_shape_and_every_table(mine: str) -> None:
    shapes = {"w": (6, 6)}
    seen = [SketchMap.draw(shapes, 4, seed, sketch=spec).identity for spec in (*NAMES, mine) for seed in (0, 1)]
    assert len(set(seen)) == 2 * len(NAMES) + 1  # "exact" has no randomness
    table = np.arange(6.0).reshape(1, 6)
    flat = [load_sketch("gaussian")(t, s) for t, s in ((table, (6,)), (table, (2, 3)), (table + 1e-12, (6,)))]
    assert len({s.identity for s in flat}) == 3


def test_the_table_of_coverage_says_how_a_sketch_is_made(mine: str) -> None:
    model, batch = make(nn.Linear(D, D), norm=nn.LayerNorm(D)), make_xy()
    shapes = {"core.weight": (D, D), "core.bias": (D,), "norm.weight": (D,), "norm.bias": (D,)}
    sketch = SketchMap.draw(
        shapes, 5, sketch={"core.weight": WithTwin, "core.bias": mine, "norm.weight": "hadamard", "*": "exact"}
    )
    loop = Loop(body=["core", "norm"], step="core", end="end")
    table = sdi.coverage(model, lambda m, b: (m(b["x"]) - b["y"]).square().sum((1, 2)), batch, loop=loop, sketch=sketch)
    assert {row.parameter: row.sketch for row in table} == {
        "core.weight": "with_twin (to_torch)",
        "core.bias": "Mine (NumPy)",
        "norm.weight": "hadamard",
        "norm.bias": "keep",
    }
    assert "Mine (NumPy)" in str(table)


def test_the_audit_finds_an_apply_outer_that_is_not_apply() -> None:
    class Wrong(Bare):
        def apply_outer(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
            return 1.1 * super().apply_outer(u, v)

    with pytest.raises(AuditError, match="differs from autograd's"):
        both(mixed_and_others({"core.*": Wrong, "*": "exact"}), steps=True)


def test_a_twin_that_gives_another_shape_is_refused() -> None:
    class Wrong(Bare):
        def apply(self, x: np.ndarray) -> np.ndarray:
            return x.reshape(len(x), -1)

    with pytest.raises(SketchMismatch, match=r"apply of sketch 'Wrong' must give shape \(3, 1\), got \(3, \d+\)"):
        both(mixed_and_others({"core.*.bias": Wrong, "*": "exact"}), steps=True)
    with pytest.raises(SketchMismatch, match=r"apply of the sketch of 'w' must give shape \(2, 1\), got \(2, 9\)"):
        SketchMap.draw({"w": (3, 3)}, 4, sketch=Wrong).apply({"w": np.ones((2, 3, 3))})


@pytest.mark.parametrize("spec", ["hadamard", {"*.bias": "exact", "*": "sparse-2"}, WithTwin])
def test_attribute_scores_the_sketched_gradients_with_the_claimed_errors(world: World, spec: Any) -> None:
    result = world.attribute(sketch=spec, seed=5, store=world.store)
    store = Store(world.store)
    sketch = SketchMap.draw({b.name: b.shape for b in store.blocks}, 32, 5, sketch=spec)
    assert store.sketch == sketch
    assert result.info["settings"]["sketch"] == sketch_text(spec)
    wanted, variance = 0.0, []
    for key, eta in zip(("step-9", "step-10"), (0.5, 0.25), strict=True):
        point = next(k for k in (p.name for p in world.store.iterdir() if p.is_dir()) if k.startswith(key))
        ids = [list(store.rows(point, side)) for side in ("train", "query")]
        g, phi = (store.read(point, side, names) for side, names in zip(("train", "query"), ids, strict=True))
        wanted = wanted + eta * np.einsum("nd,qtd->nqt", g.values, phi.values)
        parts = [
            worst_case(sketch.sketches[b.name])
            * np.square(g.values[:, b.start : b.stop]).sum(-1)[:, None, None]
            * np.square(phi.values[..., b.start : b.stop]).sum(-1)
            for b in g.blocks
        ]
        variance.append(eta * np.sqrt(sum(parts)))
    assert_close(result.sdi.values, wanted)
    assert_close(result.stderr.values, sum(variance))


def test_a_store_is_opened_and_scored_without_running_the_users_code(world: World, mine: str) -> None:
    result = world.attribute(sketch={"*.bias": "exact", "*": mine}, store=world.store)
    path = Path(mine.rpartition(":")[0])
    del sys.modules["sdi_sketch_mine"]  # where it was run from
    before = set(sys.modules)
    path.unlink()
    store = Store(world.store)
    assert set(sys.modules) == before
    recorded = [s for s in store.sketch.sketches.values() if isinstance(s, RecordedSketch)]
    assert recorded
    for s in recorded:
        assert (s.size, s.variance_factor(), s.kind, s.nbytes, isinstance(s, Sketch)) == (
            32, 2.0, "Mine", prod(s.shape), True,
        )  # fmt: skip
    assert SketchMap.from_json(store.sketch.to_json()).to_json() == store.sketch.to_json()
    points = find_checkpoints(world.folder / "ckpt/*.safetensors")
    streamed, known = sdi.stream_top(store, points, ["q-0"], k=3)[0], result.top(3, query="q-0")
    assert [row.train for row in streamed] == [row.train for row in known]
    assert_close(np.array([row.stderr for row in streamed]), np.array([row.stderr for row in known]))
    with pytest.raises(
        SketchMismatch, match=r"does not load its class 'mine.py:Mine'; draw it again with SketchMap.draw"
    ):
        recorded[0].apply(np.zeros(recorded[0].shape))
    path.write_text(MINE)
    again = world.attribute(sketch={"*.bias": "exact", "*": mine}, store=world.store)
    np.testing.assert_array_equal(again.sdi.values, result.sdi.values)


def test_a_run_does_not_go_on_with_another_class_of_the_same_name(world: World, mine: str) -> None:
    world.attribute(sketch=mine, store=world.store)
    path = Path(mine.rpartition(":")[0])
    path.write_text(MINE.replace("* self.signs", "* self.signs * 1.5"))
    with pytest.raises(StoreError, match=r"sketch\.sketches\..*\.code: '\w{12}' in the store, '\w{12}' now"):
        world.attribute(sketch=mine, store=world.store)
    with pytest.raises(StoreError, match=r"sketch.recipe.sketch: 'mine.py:Mine' in the store, None now"):
        world.attribute(store=world.store)


@pytest.mark.parametrize("spec", ["sparse", "kronecker", "exact"])
def test_choose_m_is_for_the_sketch_that_is_asked_for(world: World, spec: str) -> None:
    options = {"loss": sdi.fast.token_cross_entropy, "loop": world.loop, "batch": QUERY[0], "repeats": 2, "pilot_m": 8}
    chosen = sdi.choose_m(0.3, model=world.model, sketch=spec, **options)
    shapes = sdi.fast.body_shapes(world.model, world.loop)
    at, below = (
        SketchMap.draw(shapes, m, sketch=spec).sketches.values() for m in (chosen.bound, chosen.bound // 2 or 1)
    )
    assert max(map(worst_case, at)) <= 0.09
    assert spec == "exact" or max(map(worst_case, below)) > 0.09
    assert chosen.pilot is not None
    assert chosen.pilot <= chosen.bound
    with pytest.raises(ValueError, match=f"the bound of sketch='{spec}' depends on shapes: give model"):
        sdi.choose_m(0.3, sketch=spec)
    with pytest.raises(ValueError, match=r"'.*Bare' claims a factor of inf at m=256, where the largest parameter"):
        sdi.choose_m(0.3, model=world.model, sketch=Bare, **options)


CONFIG = 'script = "task.py"\ncheckpoints = ["*.safetensors"]\nbody = ["core"]\nstep = "core"\n'


def test_a_config_names_a_sketch_and_a_run_writes_it_back(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text("")
    for text, wanted in (
        ("", "tensor"),
        ('sketch = "sparse-2"', "sparse-2"),
        ('sketch = "package.mine:Mine"', "package.mine:Mine"),
        ('sketch = "sub/mine.py:Mine"', f"{tmp_path.resolve()}/sub/mine.py:Mine"),
        (
            '[sketch]\n"*.bias" = "exact"\n"*" = "mine.py:Mine"',
            {"*.bias": "exact", "*": f"{tmp_path.resolve()}/mine.py:Mine"},
        ),
    ):
        (tmp_path / "run.toml").write_text(CONFIG + text)
        config = read_config(tmp_path / "run.toml")
        assert config.sketch == wanted
        config.store.mkdir(parents=True, exist_ok=True)
        written = save_run(config, [])
        text = written.read_text().replace("checkpoints = []", 'checkpoints = ["x"]').replace("eta = []\n", "")
        written.write_text(text)
        assert read_config(written).sketch == wanted
        assert str(tmp_path) not in text
        assert list(read_config(written).sketch) == list(wanted)
    for bad in ("sketch = 3", 'sketch = ""', "[sketch]", '[sketch]\n"*" = 3'):
        (tmp_path / "run.toml").write_text(CONFIG + bad)
        with pytest.raises(ValueError, match="sketch must be a text in quotes, or a table from patterns"):
            read_config(tmp_path / "run.toml")


class Fixed:
    """Draws what it is told."""

    made: Any = None

    @classmethod
    def draw(cls, shape: tuple[int, ...], m: int, *, seed: int, name: str) -> Any:
        return cls.made


class Half(LinearSketch):
    @classmethod
    def draw(cls, shape: tuple[int, ...], m: int, *, seed: int, name: str) -> Any: ...


def drawing(made: Any) -> Any:
    return type("Fixed", (Fixed,), {"made": made})


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("tenser", ValueError, r"sketch must be one of \('tensor', .*\), .* got 'tenser'; did you mean 'tensor'\?"),
        ("sparse-0", ValueError, r"got 'sparse-0'; did you mean 'sparse'\?"),
        (3, TypeError, "sketch must be a name, an import path or a class, got 3"),
        ("no_such_package.x:Y", ValueError, r"there is no module 'no_such_package' .* path/to/x\.py:Class"),
        ("sdi.sketches:Kep", ValueError, r"sdi.sketches has no class 'Kep'; did you mean 'Keep'\?"),
        ("nowhere/mine.py:Mine", ValueError, r"got .*/nowhere/mine\.py, which does not exist"),
        (dict, TypeError, r"sketch 'dict' has no classmethod draw\(shape, m, \*, seed, name\)"),
        (Half, TypeError, "sketch 'Half' lacks apply, shape, size, tables, variance_factor, which LinearSketch"),
        ({"v": "tensor"}, SketchMismatch, r"no pattern of sketch matches parameter 'w'; it has \['v'\]: end with '\*'"),
        (drawing(object()), TypeError, r"\(64, 64\) and m=16, lacks draw, shape, .*; derive it from sdi.LinearSketch"),
        (drawing(Bare((4, 4))), SketchMismatch, r"has shape \(4, 4\) and size 1; it must keep the shape and 1 to m"),
        (drawing(Keep((64, 64))), SketchMismatch, r"has shape \(64, 64\) and size 4096"),
        (CountSketch, ValueError, r"shape must be \(d,\) for CountSketch, got \(64, 64\); use TensorSketch"),
    ],
)  # fmt: skip
def test_what_is_no_sketch_is_refused(spec: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SketchMap.draw({"w": (64, 64)}, 16, sketch=spec)


@pytest.mark.parametrize("name", ["gaussian", "rademacher"])
def test_a_dense_projection_that_is_not_small_is_refused_with_its_bytes(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"'core\.w' .* m=2048 is a dense matrix of 9,663,676,416 bytes, over 1,073,741,824"
    ):
        SketchMap.draw({"core.w": (768, 768)}, 2048, sketch=name)
    with pytest.raises(ValueError, match=r"use m of at most 227 there, or another sketch for it"):
        SketchMap.draw({"core.w": (768, 768)}, 2048, sketch=name)


def test_a_sparse_projection_whose_tables_are_not_small_is_refused_with_their_bytes() -> None:
    with pytest.raises(
        ValueError, match=r"'sparse-4' of 'emb' .* needs tables of 1,852,674,048 bytes, over 1,073,741,824"
    ):
        SketchMap.draw({"emb": (50257, 768)}, 2048, sketch="sparse")


def test_other_refusals_name_argument_value_and_rule(world: World) -> None:
    with pytest.raises(
        ValueError, match="family must be 'table' where sketch is not 'tensor', got 'polynomial' and sketch='mask'"
    ):
        SketchMap.draw({"w": (9, 9)}, 4, family="polynomial", sketch="mask")
    SketchMap.draw({"w": (9, 9), "b": (9,)}, 4, family="polynomial", sketch={"b": "exact", "*": "tensor"})
    with pytest.raises(ValueError, match="m must be a width for sketch='mask', got None"):
        world.attribute(m=None, sketch="mask")
    with pytest.raises(TypeError, match="sketch must be a name, an import path, a class, or a mapping to these, got 7"):
        world.attribute(sketch=7)
    for name in EXACT:
        cls: Any = load_sketch(name)
        with pytest.raises(ValueError, match=r"shape must be \(d,\) or \(d_out, d_in\) with sizes of at least 1"):
            cls.draw((2, 2, 2), 4)
        with pytest.raises(ValueError, match="m must be at least 1, got 0"):
            cls.draw((2, 2), 0)
        with pytest.raises(SketchMismatch, match=r"Sketch is for pairs of shapes \(..., T, 3\) and \(..., T, 2\), got"):
            cls.draw((3, 2), 2).apply_outer(np.zeros((4, 2)), np.zeros((4, 3)))
        with pytest.raises(ValueError, match="read-only"):
            next(iter(cls.draw((3, 2), 2).tables().values()))[0] = 0


def test_a_file_that_was_altered_is_refused(mine: str) -> None:
    sketch = SketchMap.draw({"w": (6, 6), "v": (6, 6)}, 4, sketch={"w": mine, "*": "mask"})
    spec = json.loads(sketch.to_json())
    assert SketchMap.from_json(json.dumps(spec)) == sketch
    del spec["sketches"]["w"]
    with pytest.raises(SketchMismatch, match=r"the file says nothing of the sketch of 'w', of class 'mine\.py:Mine'"):
        SketchMap.from_json(json.dumps(spec))
