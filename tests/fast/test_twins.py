"""Sketches on a device, called as sinks call them, against the NumPy definition of the same sketch."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import pytest
import torch
from sketch_cases import NAMES, Bare, WithTwin
from torch import Tensor
from twin_cases import BYTES, CPU, CUDA, DTYPES, TWINS, Counting, OnOneDevice, drawn, near, numbers, row_sums

from sdi import SketchMismatch
from sdi.fast.sketching import hadamard, mask, tensor_sketch
from sdi.fast.sketching.compiled import make_tensor_sketch
from sdi.fast.sketching.device_sketch import ThroughNumPy, TorchSketch, make_twin, sketch_route
from sdi.fast.sketching.hadamard import TorchHadamard, walsh_hadamard
from sdi.fast.sketching.mask import TorchMask
from sdi.fast.sketching.workspace import Workspace
from sdi.sketch.protocol import LinearSketch, matrix_shape
from sdi.sketch.shipped.count_and_tensor import CountSketch
from sdi.sketch.shipped.hadamard import walsh_hadamard as slow_walsh_hadamard


@pytest.mark.parametrize("max_bytes", BYTES)
@pytest.mark.parametrize("dtype", list(DTYPES), ids=str)
@pytest.mark.parametrize("spec", TWINS, ids=lambda spec: getattr(spec, "__name__", spec))
def test_a_twin_adds_what_the_definition_gives(spec: Any, dtype: torch.dtype, max_bytes: int) -> None:
    for shape in ((7, 5), (3, 9), (9,)):
        sketch, sides = drawn(spec, shape), matrix_shape(shape)
        made, work = TorchSketch(sketch, CPU, dtype), Workspace(CPU, max_bytes)
        u, v, before = numbers(4, 5, sides[0]), numbers(4, 5, sides[1], seed=1), numbers(4, sketch.size, dtype=dtype)
        index = torch.tensor([[0, 2, 2, 1, 0]] * 3 + [[1, 1, 1, 0, 2]])
        G = torch.einsum("nti,ntj->nij", u, v).reshape(4, *shape)
        rows = row_sums(index, v, sides[0]).reshape(4, *shape)
        for verb, given, whole in (("add_outer", (u, v), G), ("add_rows", (index, v), rows), ("add_matrix", (G,), G)):
            if verb == "add_rows" and len(shape) == 1:
                continue
            acc = before.clone()
            getattr(made, verb)(acc, *given, work)
            assert acc.dtype == dtype
            near(acc, before.numpy() + sketch.apply(whole.numpy()), DTYPES[dtype] * 4)
        none = before.clone()
        made.add_outer(none, u[:, :0], v[:, :0], work)
        assert torch.equal(none, before)


@pytest.mark.parametrize("spec", TWINS, ids=lambda spec: getattr(spec, "__name__", spec))
def test_a_twins_own_verbs_agree(spec: Any) -> None:
    for shape, m in (((7, 5), 6), ((6, 70), 9), ((70, 3), 12)):
        sketch = drawn(spec, shape, m)
        twin: Any = make_twin(sketch, CPU, torch.float64)
        u, v = numbers(3, 4, shape[0]), numbers(3, 4, shape[1], seed=1)
        index = torch.tensor([[0, 2, 5, 2]] * 3)
        wanted = sketch.apply(torch.einsum("nti,ntj->nij", u, v).numpy())
        near(twin.apply(torch.einsum("nti,ntj->nij", u, v)), wanted, 1e-13)
        if hasattr(twin, "apply_outer"):
            near(twin.apply_outer(u, v), wanted, 1e-13)
        if hasattr(twin, "apply_rows"):
            near(twin.apply_rows(index, v), sketch.apply(row_sums(index, v, shape[0]).numpy()), 1e-13)


@pytest.mark.parametrize("d", [1, 2, 3, 31, 32, 33, 64, 100, 1500, 2048])
def test_the_transform_by_products_is_the_transform_by_passes(d: int) -> None:
    for dtype, tolerance in DTYPES.items():
        x = numbers(2, 3, d, dtype=dtype)
        got = walsh_hadamard(x)
        assert got.dtype == dtype
        near(got, slow_walsh_hadamard(x.double().numpy()), tolerance * 10)
    assert torch.equal(x, numbers(2, 3, d, dtype=dtype))


def test_a_class_without_a_twin_goes_through_numpy_and_says_so() -> None:
    bare, twin = drawn(Bare, (4, 3)), drawn(WithTwin, (4, 3))
    assert isinstance(make_twin(bare, CPU, torch.float32), ThroughNumPy)
    assert make_twin(bare, CPU, torch.float32).apply(numbers(2, 4, 3, dtype=torch.float32)).dtype == torch.float32
    assert sketch_route(bare) == f"{Bare.__name__} (NumPy)" or sketch_route(bare).endswith(" (NumPy)")
    assert sketch_route(twin) == "with_twin (to_torch)"
    for name in NAMES:
        assert sketch_route(drawn(name, (4, 3))) == drawn(name, (4, 3)).kind
    assert sketch_route(CountSketch.draw((9,), 3)) == "count"


def test_a_twin_that_gives_another_shape_or_no_tensor_is_refused() -> None:
    made = TorchSketch(drawn("gaussian", (4, 3)), CPU, torch.float64)
    G, acc = numbers(2, 4, 3), torch.zeros(2, 6, dtype=torch.float64)
    for wrong, got in ((lambda G: torch.zeros(2, 5), r"\(2, 5\)"), (lambda G: np.zeros((2, 6)), r"\(2, 6\)"),
                       (lambda G: [0.0] * 6, "list")):  # fmt: skip
        made.twin.apply = wrong
        with pytest.raises(SketchMismatch, match=rf"^apply of sketch 'gaussian' must give shape \(2, 6\), got {got}$"):
            made.add_matrix(acc, G, Workspace(CPU, 1 << 20))
    u, v, index = numbers(2, 3, 60), numbers(2, 3, 50), torch.zeros(2, 3, dtype=torch.int64)
    for verb, add, given in (("apply_outer", "add_outer", (u, v)), ("apply_rows", "add_rows", (index, v))):
        made = TorchSketch(drawn("mask", (60, 50)), CPU, torch.float64)
        setattr(made.twin, verb, lambda *given: torch.zeros(2, 5))
        with pytest.raises(SketchMismatch, match=rf"^{verb} of sketch 'mask' must give shape \(2, 6\), got \(2, 5\)$"):
            getattr(made, add)(acc, *given, Workspace(CPU, 1 << 20))


@pytest.mark.parametrize(
    ("each", "max_bytes", "sizes"),
    [
        (None, 12 * 8 * 2, [(2, 5), (2, 5), (1, 5)]),  # two gradients of 12 numbers fit
        (None, 12 * 8 * 2 - 1, [(1, 5)] * 5),
        (2, 8 * 2 * 5 * 2, [(2, 5), (2, 5), (1, 5)]),  # two examples of five tokens of two numbers
        (2, 8 * 2 * 3, [(1, 3), (1, 2)] * 5),
        (2, 1, [(1, 1)] * 25),
        (2, 1 << 20, [(5, 5)]),
    ],
)
def test_parts_are_as_large_as_the_workspace_allows(each: int | None, max_bytes: int, sizes: list[Any]) -> None:
    made, work = TorchSketch(drawn("gaussian", (4, 3)), CPU, torch.float64), Workspace(CPU, max_bytes)
    acc, u, v, index = (
        torch.zeros(5, 6, dtype=torch.float64),
        numbers(5, 5, 4),
        numbers(5, 5, 3),
        torch.zeros(5, 5).long(),
    )
    made.twin = Counting(each)
    made.add_outer(acc, u, v, work)
    assert made.twin.calls == [("outer", (*size, 4)) for size in sizes]
    made.twin = Counting(each)
    made.add_rows(acc, index, v, work)
    assert made.twin.calls == [("rows", (*size, 3)) for size in sizes]
    made.twin = Counting(each, forms=True)
    assert made.route(5) == "gemm"
    made.add_outer(acc, u, v, work)
    whole = {12 * 8 * 2: [2, 2, 1], 8 * 2 * 5 * 2: [1] * 5, 1 << 20: [5]}.get(max_bytes, [1] * 5)
    assert made.twin.calls == [("apply", (n, 4, 3)) for n in whole]
    made.twin = Counting(each, forms=False)
    assert made.route(5) == "direct"
    made.add_matrix(acc, numbers(5, 4, 3), work)
    assert made.twin.calls == [("apply", (n, 4, 3)) for n in whole]


def test_the_estimates_of_other_twins_count_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TorchHadamard(drawn("hadamard", (5, 10), 9), CPU, torch.float32)
    assert made.token_numbers == 2 * (9 + 8 + 16)
    assert made.token_ns == pytest.approx(hadamard.WALSH_NS * (8 * 3 + 16 * 4) + mask.GATHER_NS * 9)
    assert made.whole_ns == pytest.approx(hadamard.WALSH_NS * 128 * log2(128))
    edge = made.whole_ns / (made.token_ns - tensor_sketch.MADD_NS * 50)
    assert (made.forms(int(edge)), made.forms(int(edge) + 1)) == (False, True)
    made.token_ns, made.whole_ns = tensor_sketch.MADD_NS * 50, 0.0
    assert not made.forms(1)
    assert TorchMask(drawn("mask", (5, 10), 9), CPU, torch.float32).token_numbers == 27
    for chosen, cheap in ((2, True), (3, False)):  # 5 ns each, beside 1000 of 0.015
        assert TorchMask(drawn("mask", (50, 20), chosen), CPU, torch.float32).cheap is cheap
        assert TorchMask(drawn("mask", (50, 20), chosen), CPU, torch.float32).forms(1) is not cheap
    k = drawn("kronecker", (7, 5))
    assert make_twin(k, CPU, torch.float32).token_numbers == sum(k.k)  # type: ignore[attr-defined]


@pytest.mark.parametrize("spec", [*TWINS, "tensor"], ids=lambda spec: getattr(spec, "__name__", spec))
def test_tables_are_put_on_the_device_that_is_asked_for(spec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = drawn(spec, (7, 5), 6)
    with OnOneDevice() as mode:
        made: Any = (
            make_tensor_sketch(sketch, CUDA, torch.float32)
            if spec == "tensor"
            else TorchSketch(sketch, CUDA, torch.float32)
        )
        if isinstance(getattr(made, "twin", None), ThroughNumPy):
            monkeypatch.setattr(Tensor, "cpu", lambda self: self)
            made.twin.apply(numbers(2, 7, 5))
        tables = [t for t in vars(getattr(made, "twin", made)).values() if isinstance(t, Tensor)]
    assert mode.made == {"tensor": 4, "hadamard": 4, "sparse": 2, "sparse-1": 2}.get(spec, 1)
    floating = [t for t in tables if t.dtype not in (torch.int64, torch.bool)]
    assert all(t.dtype == torch.float32 for t in floating)


def test_a_users_sketch_is_asked_for_its_twin_and_its_own_outer_products() -> None:
    class Asked(Bare):
        def to_torch(self, device: Any, dtype: Any) -> Any:
            return device, dtype

    assert make_twin(drawn(Asked, (4, 3)), CUDA, torch.float32) == (CUDA, torch.float32)

    class Formed(Bare):
        apply_outer = LinearSketch.apply_outer

        def apply(self, x: np.ndarray) -> np.ndarray:
            return super().apply(x).astype(np.float64)

    formed = TorchSketch(drawn(Formed, (4, 3)), CPU, torch.float32)
    assert not hasattr(formed.twin, "apply_outer")
    assert formed.route(1) == "gemm"
    assert formed.sums_first is True
    assert formed.twin.apply(numbers(2, 4, 3, dtype=torch.float32)).dtype == torch.float32
    own = drawn(Formed, (4, 3))
    object.__setattr__(own, "apply_outer", Bare.apply_outer.__get__(own))
    assert not hasattr(ThroughNumPy(own, CPU, torch.float32), "apply_outer")
    bare = TorchSketch(drawn(Bare, (4, 3)), CPU, torch.float32)
    assert hasattr(bare.twin, "apply_outer")
    assert bare.route(1) == "direct"

    class NoOuter:
        shape, size = (4, 3), 6

    assert hasattr(ThroughNumPy(NoOuter(), CPU, torch.float32), "apply_outer")  # type: ignore[arg-type]


def test_one_token_alone_fills_the_workspace_as_several_do() -> None:
    made = TorchSketch(drawn("gaussian", (4, 3)), CPU, torch.float64)
    made.twin = Counting(2)
    made.add_outer(
        torch.zeros(4, 6, dtype=torch.float64), numbers(4, 1, 4), numbers(4, 1, 3), Workspace(CPU, 8 * 2 * 2)
    )
    assert made.twin.calls == [("outer", (2, 1, 4))] * 2


def test_the_rows_of_a_large_embedding_are_told_apart_by_every_bit() -> None:
    sketch = drawn("hadamard", (70_000, 2), 40)
    twin: Any = make_twin(sketch, CPU, torch.float32)
    index, v = torch.tensor([[69_999, 4_097, 65_536 + 21]]), numbers(1, 3, 2, dtype=torch.float32)
    H = hadamard.hadamard(index[0].numpy(), sketch.out_at) * sketch.out_signs[index[0].numpy()][:, None]
    columns = (v[0].numpy() * sketch.in_signs) @ hadamard.hadamard(np.arange(2), sketch.in_at)
    got = twin.apply_rows(index, v)
    assert got.dtype == torch.float32
    near(got, (H * columns).sum(0)[None] / 40**0.5, 1e-5)


def test_what_is_formed_is_formed_where_the_numbers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    made, v = TorchSketch(drawn("gaussian", (4, 3)), CPU, torch.float64), numbers(2, 3, 3)
    acc = torch.zeros(2, 6, dtype=torch.float64)
    with OnOneDevice(v.device) as mode:
        made.add_rows(acc, torch.tensor([[0, 1, 1]] * 2, device=CPU), v, Workspace(CPU, 1 << 20))
        assert mode.made == 2
    near(acc, drawn("gaussian", (4, 3)).apply(row_sums(torch.tensor([[0, 1, 1]] * 2), v, 4).numpy()), 1e-13)
    asked: list[Any] = []
    matrix = hadamard._matrix
    monkeypatch.setattr(hadamard, "_matrix", lambda *given: asked.append(given) or matrix(*given))
    walsh_hadamard(numbers(2, 40, dtype=torch.float32))
    assert asked == [(32, CPU, torch.float32), (2, CPU, torch.float32)]
