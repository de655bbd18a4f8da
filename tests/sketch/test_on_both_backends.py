"""Every sketch in both backends: one answer, by any route, and a twin that is looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from fast_cases import assert_near, features_of, row_norms
from looped_models import D, make, make_xy
from sketch_cases import MIXED, NAMES, Bare, WithTwin, both, mine, mixed_and_others
from torch import nn

import sdi
import sdi.fast
import sdi.reference
from sdi import Loop, SketchMap, load_sketch
from sdi.errors import AuditError, SketchMismatch
from sdi.fast.guard import memory
from sdi.fast.sketching.hadamard import TorchHadamard
from sdi.fast.sketching.mask import TorchMask
from sdi.testing import assert_same_features

__all__ = ["mine"]


@pytest.mark.slow
@pytest.mark.parametrize("spec", [*NAMES, MIXED, WithTwin, Bare], ids=lambda spec: getattr(spec, "__name__", str(spec)))
def test_both_backends_agree_on_vectors_matrices_and_embeddings(spec: Any) -> None:
    sketch = mixed_and_others(spec)
    assert_same_features(*both(sketch, steps=True))
    assert_same_features(*both(sketch, steps=False))


@pytest.mark.slow
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
