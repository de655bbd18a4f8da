"""Sketches on a device, called as sinks call them, against the NumPy definition of the same sketch."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2, prod
from typing import Any

import numpy as np
import pytest
import torch
from sketch_cases import NAMES, Bare, WithTwin
from torch import Tensor

from sdi import SketchMap, SketchMismatch, load_sketch
from sdi.fast.sketching import compiled, hadamard, mask, sinks, tensor_sketch
from sdi.fast.sketching.compiled import NativeTensorSketch, make_tensor_sketch
from sdi.fast.sketching.device_sketch import ThroughNumPy, TorchSketch, make_twin, sketch_route
from sdi.fast.sketching.hadamard import TorchHadamard, walsh_hadamard
from sdi.fast.sketching.mask import TorchMask
from sdi.fast.sketching.sinks import Accumulator, CountSink, KeepSink, TensorSink, make_sinks
from sdi.fast.sketching.tensor_sketch import TorchCountSketch, TorchTensorSketch
from sdi.fast.sketching.workspace import Workspace
from sdi.sketch.protocol import matrix_shape
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch
from sdi.sketch.shipped.hadamard import walsh_hadamard as slow_walsh_hadamard

CPU = torch.device("cpu")
TWINS = [*(name for name in NAMES if name not in ("tensor", "exact")), WithTwin, Bare]
DTYPES = {torch.float64: 1e-13, torch.float32: 1e-5}
BYTES = [1, 700, 1 << 20]  # of a workspace: one row at a time, a few, all


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def drawn(spec: Any, shape: tuple[int, ...], m: int = 6) -> Any:
    cls = load_sketch(spec) if isinstance(spec, str) else spec
    return cls.draw(shape, m, seed=3, name="w")


def near(got: Tensor, wanted: np.ndarray | Tensor, tolerance: float) -> None:
    wanted = torch.as_tensor(np.asarray(wanted))
    assert got.shape == wanted.shape
    assert (got.double() - wanted.double()).abs().max() <= tolerance * max(float(wanted.abs().max()), 1e-30)


def row_sums(index: Tensor, v: Tensor, rows: int) -> Tensor:
    """The sum over tokens of outer(one_hot(index), v)."""
    return torch.einsum("ntr,ntd->nrd", torch.nn.functional.one_hot(index, rows).to(v.dtype), v)


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


class Counting:
    """A twin of a (4, 3) parameter that notes the sizes of what it is given."""

    def __init__(self, each: int | None = None, forms: bool | None = None) -> None:
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        if each is not None:
            self.token_numbers = each
        if forms is not None:
            self.forms = lambda tokens: forms

    def apply(self, G: Tensor) -> Tensor:
        self.calls.append(("apply", tuple(G.shape)))
        return torch.zeros(len(G), 6, dtype=torch.float64)

    def apply_outer(self, u: Tensor, v: Tensor) -> Tensor:
        self.calls.append(("outer", tuple(u.shape)))
        return torch.zeros(len(u), 6, dtype=torch.float64)

    def apply_rows(self, index: Tensor, v: Tensor) -> Tensor:
        self.calls.append(("rows", tuple(v.shape)))
        return torch.zeros(len(v), 6, dtype=torch.float64)


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


@pytest.mark.parametrize("max_bytes", BYTES)
@pytest.mark.parametrize("dtype", list(DTYPES), ids=str)
@pytest.mark.parametrize(("shape", "m"), [((7, 5), 6), ((4, 9), 7), ((1, 6), 1)])
def test_pytorchs_routes_of_a_tensor_sketch_are_its_definition(
    shape: tuple[int, int], m: int, dtype: torch.dtype, max_bytes: int
) -> None:
    sketch = TensorSketch.draw(shape, m, seed=1)
    made, work = TorchTensorSketch(sketch, CPU, dtype), Workspace(CPU, max_bytes)
    u, v = numbers(5, 4, shape[0]), numbers(5, 4, shape[1], seed=1)
    index = torch.tensor([[0, 0, shape[0] - 1, 0]] * 5)
    G, before = torch.einsum("nti,ntj->nij", u, v), numbers(5, m, dtype=dtype)
    wanted = before.double().numpy() + sketch.apply(G.numpy())
    for verb, given in (
        ("add_by_fft", (u.to(dtype), v.to(dtype))), ("add_by_gemm", (u, v)), ("add_outer", (u.to(dtype), v.to(dtype))),
        ("add_matrix", (G,)),
    ):  # fmt: skip
        for _ in range(2):  # buffers hold what the first call left
            acc = before.clone()
            getattr(made, verb)(acc, *given, work)
            assert acc.dtype == dtype
            near(acc, wanted, DTYPES[dtype] * 4)
    acc = before.clone()
    made.add_rows(acc, index, v, work)
    near(acc, before.double().numpy() + sketch.apply(row_sums(index, v, shape[0]).numpy()), DTYPES[dtype] * 4)
    none = before.clone()
    made.add_outer(none, u[:, :0], v[:, :0], work)
    assert torch.equal(none, before)
    assert made.complex == (torch.complex128 if dtype == torch.float64 else torch.complex64)
    assert made.signed_buckets is made.signed_buckets
    negative = torch.tensor(sketch.S.ravel() < 0)
    assert torch.equal(made.signed_buckets, torch.tensor(sketch.H.ravel()) + m * negative)


def test_a_count_sketch_on_a_device_is_its_definition() -> None:
    sketch = CountSketch.draw((9,), 4, seed=2)
    made, acc, x = TorchCountSketch(sketch, CPU, torch.float64), numbers(3, 4), numbers(3, 9, dtype=torch.float32)
    wanted = acc.numpy() + sketch.apply(x.double().numpy())
    made.add(acc, x)
    near(acc, wanted, 1e-14)
    assert (made.m, made.s.dtype) == (4, torch.float64)


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Set one cost of a module to 1 and the others to 0: an estimate is then a count."""

    def set_costs(module: Any, one: str) -> None:
        for name in [name for name in vars(module) if name.endswith("_NS")]:
            monkeypatch.setattr(module, name, 1.0 if name == one else 0.0)

    return set_costs


def test_the_estimates_of_pytorchs_routes_count_what_they_do(one_at_a_time: Any) -> None:
    made = TorchTensorSketch(TensorSketch.draw((6, 10), 8), CPU, torch.float32)
    for cost, fft, gemm in (
        ("FFT_NS", 5 * 2 * 8 * 3, 0), ("SCATTER_NS", 5 * 16, 60), ("PRODUCT_NS", 5 * 8, 0), ("MADD_NS", 0, 5 * 60)
    ):  # fmt: skip
        one_at_a_time(tensor_sketch, cost)
        assert (made.fft_ns(5), made.gemm_ns(5)) == (fft, gemm)
    one_at_a_time(tensor_sketch, "FFT_NS")
    assert TorchTensorSketch(TensorSketch.draw((6, 10), 1), CPU, torch.float32).fft_ns(5) == 5 * 2 * 1 * 1


@pytest.mark.skipif(compiled.library() is None, reason="the compiled kernels were not built")
def test_the_estimates_of_the_compiled_routes_count_what_they_do(one_at_a_time: Any) -> None:
    """Tokens are transformed 16 at a time."""
    made = make_tensor_sketch(TensorSketch.draw((6, 10), 8), CPU, torch.float32)
    for cost, fft, gemm in (("POINT_NS", 32 * 2 * 8 * 3, 0), ("COUNT_NS", 32 * 16, 0), ("SCATTER_NS", 0, 60),
                            ("MADD_NS", 0, 17 * 60)):  # fmt: skip
        one_at_a_time(compiled, cost)
        assert (made.fft_ns(17), made.gemm_ns(17)) == (fft, gemm)
        assert made.fft_ns(16) == fft / 2
    one_at_a_time(compiled, "POINT_NS")
    assert make_tensor_sketch(TensorSketch.draw((6, 10), 1), CPU, torch.float32).fft_ns(16) == 16 * 2
    prime = make_tensor_sketch(TensorSketch.draw((6, 10), 7), CPU, torch.float32)
    one_at_a_time(tensor_sketch, "PRODUCT_NS")
    assert prime.fft_ns(5) == 5 * 7


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


@pytest.mark.parametrize("make", [TorchTensorSketch, make_tensor_sketch])
def test_the_cheaper_route_of_a_tensor_sketch_is_taken(make: Any) -> None:
    for shape, m, tokens, route in (((128, 128), 2048, 81, "gemm"), ((768, 3072), 2048, 81, "fft")):
        made = make(TensorSketch.draw(shape, m), CPU, torch.float32)
        assert made.route(tokens) == made.route(tokens) == route
        assert (made.fft_ns(tokens) < made.gemm_ns(tokens)) == (route == "fft")
        called: list[str] = []
        for name in ("fft", "gemm"):
            setattr(made, f"add_by_{name}", lambda *given, name=name, called=called: called.append(name))
        made.add_outer(torch.zeros(1, m), torch.zeros(1, tokens, shape[0]), torch.zeros(1, tokens, shape[1]), None)
        assert called == [route]
    made.fft_ns = made.gemm_ns = lambda tokens: 1.0
    assert made.route(3) == "gemm"


def test_sinks_add_every_form_to_the_slot_that_is_named() -> None:
    shapes = {"conv": (4, 3, 2), "kept": (3, 2), "bias": (9,), "w": (6, 5), "g": (6, 7), "b3": (3,)}
    sketch = SketchMap.draw(shapes, 7, sketch={"g": "gaussian", "kept": "exact", "*": "tensor"})
    for steps in (True, False):
        for dtype, tolerance in DTYPES.items():
            acc, work, tables = Accumulator(sketch, steps, dtype, CPU), Workspace(CPU, 1 << 20), {}
            made = make_sinks(acc, work, tables)
            again = make_sinks(acc, work, tables)
            assert all(getattr(again[k], "tables", None) is getattr(made[k], "tables", None) for k in shapes)
            assert {k: type(s) for k, s in made.items()} == {
                "conv": TensorSink, "kept": KeepSink, "bias": CountSink, "w": TensorSink, "g": TensorSink,
                "b3": KeepSink,
            }  # fmt: skip
            for sink in made.values():
                sink.open(3, 4)
            wanted = {slot: {k: np.zeros((3, *s)) for k, s in shapes.items()} for slot in (0, 2, None)}
            for seed, (slot, arrays) in enumerate(wanted.items()):
                for k, shape in shapes.items():
                    G = numbers(3, *shape, seed=seed)
                    made[k].whole(slot, G.to(dtype))
                    arrays[k] += G.numpy()
                    if len(shape) == 1:
                        continue
                    rows, cols = matrix_shape(shape)
                    u, v = numbers(3, 5, rows, seed=seed), numbers(3, 5, cols, seed=seed + 9)
                    for _ in range(2):
                        made[k].outer(slot, u, v.to(dtype) if k == "conv" else v)
                        arrays[k] += torch.einsum("nti,ntj->nij", u, v).reshape(3, *shape).numpy()
                    index = torch.tensor([[0, 1, 1, 2, 0]] * 3)
                    made[k].rows(slot, index, v)
                    arrays[k] += row_sums(index, v, rows).reshape(3, *shape).numpy()
            values, outside = acc.finish()
            assert values.dtype == (np.float64 if dtype == torch.float64 else np.float32)
            if steps:
                assert values.shape == (3, 4, sketch.size)
                assert outside is not None
                assert outside.dtype == values.dtype
                near(torch.tensor(values[:, 0]), sketch.apply(wanted[0]), tolerance * 4)
                near(torch.tensor(values[:, 2]), sketch.apply(wanted[2]), tolerance * 4)
                near(torch.tensor(outside), sketch.apply(wanted[None]), tolerance * 4)
                assert not values[:, [1, 3]].any()
            else:
                total = {k: sum(arrays[k] for arrays in wanted.values()) for k in shapes}
                assert outside is None
                near(torch.tensor(values), sketch.apply(total), tolerance * 4)
            acc.clear()
            assert (acc.values, acc.outside, acc.late) == (None, None, [])
            made["w"].open(2, 1)
            assert not acc.finish()[0].any()


def test_small_gradients_are_summed_before_they_are_sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = SketchMap({"w": TensorSketch.draw((6, 5), 7)}, {"w": (6, 5)})
    monkeypatch.setattr(sinks, "make_tensor_sketch", TorchTensorSketch)
    u, v, size = numbers(2, 3, 6), numbers(2, 3, 5), 2 * 30 * 8
    for max_bytes, steps, summed in ((size // 4, False, True), (size // 4 - 1, False, False), (size, True, False)):
        acc = Accumulator(sketch, steps, torch.float64, CPU)
        sink: Any = make_sinks(acc, Workspace(CPU, max_bytes), {})["w"]
        sink.open(2, 1)
        sink.outer(0, u, v)
        sink.outer(0, u, v)
        assert acc.late == ([sink] if summed else [])
        assert (sink.sum is not None) == summed
        assert bool(acc.values is not None and acc.values.any()) != summed
        near(torch.tensor(acc.finish()[0]).reshape(2, 7), sketch.apply({"w": 2 * (u.mT @ v).numpy()}), 1e-13)
        assert sink.sum is None
        near(torch.tensor(acc.finish()[0]).reshape(2, 7), sketch.apply({"w": 2 * (u.mT @ v).numpy()}), 1e-13)


def test_a_buffer_is_used_again_for_what_fits_into_it_and_never_shared_by_two_names() -> None:
    work = Workspace(CPU, 1)
    first = work.take("a", (3, 4), torch.float64)
    assert (first.shape, first.dtype) == ((3, 4), torch.float64)
    assert work.take("a", (3, 4), torch.float64) is first
    smaller = work.take("a", (2, 5), torch.float64)
    assert (smaller.shape, smaller.data_ptr()) == ((2, 5), first.data_ptr())
    same = work.take("a", (12,), torch.float64)
    assert same.data_ptr() == first.data_ptr()
    others = [work.take("b", (3, 4), torch.float64), work.take("a", (3, 4), torch.float32)]
    assert len({x.data_ptr() for x in (first, *others)}) == 3
    larger = work.take("a", (13,), torch.float64)
    assert larger.shape == (13,)
    again = work.take("a", (3, 4), torch.float64)
    assert again.data_ptr() == larger.data_ptr()  # not the old buffer: it was given up
    assert work.take("b", (3, 4), torch.float64) is others[0]
    assert work.take("a", (3, 4), torch.float32) is others[1]


@pytest.mark.skipif(compiled.library() is None, reason="the compiled kernels were not built")
def test_a_batch_is_cut_into_pieces_for_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 16 pieces or one an example; by 64 tokens or more (fft), by rows (gemm); no more threads."""
    made = make_tensor_sketch(TensorSketch.draw((6, 10), 8), CPU, torch.float32)
    assert isinstance(made, NativeTensorSketch)
    seen: list[Any] = []
    monkeypatch.setattr(
        made, "_call", lambda kernel, acc, u, v, work, *rest: seen.append((kernel, u.shape[1], *rest[:3]))
    )
    monkeypatch.setattr(torch, "get_num_threads", lambda: 5)
    shapes: dict[str, tuple[int, ...]] = {}

    class Noting(Workspace):
        def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
            shapes[name] = shape
            assert dtype == torch.float32
            return super().take(name, shape, dtype)

    def cut(n: int, tokens: int, route: str) -> list[tuple[int, ...]]:
        seen.clear()
        acc, u, v = torch.zeros(n, 8), torch.zeros(n, tokens, 6), torch.zeros(n, tokens, 10)
        getattr(made, f"add_by_{route}")(acc, u, v, Noting(CPU, 1 << 20))
        assert all(kernel is getattr(made, f"_{route}") for kernel, *_ in seen)
        return [tuple(rest) for _, *rest in seen]

    for n, tokens, parts, threads in ((1, 63, 1, 1), (1, 64, 1, 1), (1, 128, 2, 2), (1, 9999, 16, 5), (2, 9999, 8, 5),
                                      (3, 320, 5, 5), (17, 9999, 1, 5), (0, 64, 1, 1)):  # fmt: skip
        assert cut(n, tokens, "fft") == [(tokens, parts, 8, threads)]
        assert shapes["points"] == (threads, 3, 8, 16)
    for n, parts, threads in ((1, 16, 5), (3, 5, 5), (16, 1, 5), (17, 1, 5), (0, 16, 1)):
        assert cut(n, 30, "gemm") == [(30, parts, 16, threads)]
        assert shapes["tiles"] == (threads, 30, -(-6 // parts) + 4 + 16)
    assert [tokens for tokens, *_ in cut(1, 2049, "gemm")] == [1024, 1024, 1]
    assert shapes["tiles"][1] == 1024


@pytest.mark.skipif(compiled.library() is None, reason="the compiled kernels were not built")
def test_kernels_are_called_with_as_many_examples_as_fit() -> None:
    made: Any = make_tensor_sketch(TensorSketch.draw((6, 10), 8), CPU, torch.float64)
    u, v, acc = numbers(5, 3, 6), numbers(5, 3, 10), torch.zeros(5, 8, dtype=torch.float64)
    for max_bytes, sizes in ((2 * 3 * 16 * 8, [2, 2, 1]), (2 * 3 * 16 * 8 - 1, [1] * 5), (1, [1] * 5), (1 << 20, [5])):
        seen: list[Any] = []
        made._call(
            lambda job, tables, seen=seen: seen.append(job._obj), acc, u, v, Workspace(CPU, max_bytes), 3, 16, 2, 77
        )
        assert [job.n for job in seen] == sizes
        at = 0
        for job in seen:
            assert (job.tokens, job.parts, job.width, job.threads, job.scratch) == (3, 3, 16, 2, 77)
            assert (job.acc_stride, job.u_example, job.u_token, job.v_example, job.v_token) == (8, 18, 6, 30, 10)
            assert (job.acc, job.u, job.v) == (acc[at].data_ptr(), u[at].data_ptr(), v[at].data_ptr())
            at += job.n
    with pytest.raises(AssertionError):
        made._call(None, acc.float(), u, v, Workspace(CPU, 1), 3, 16, 2, 77)
    strided = made._dense(u.transpose(1, 2))
    assert (strided.stride(2), strided.dtype) == (1, torch.float64)
    assert made._dense(u) is u
    assert made._dense(u.float()).dtype == torch.float64


@pytest.mark.skipif(compiled.library() is None, reason="the compiled kernels were not built")
def test_transforms_too_long_or_of_other_primes_are_left_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    def transforms(m: int) -> bool:
        made = make_tensor_sketch(TensorSketch.draw((3, 2), m), CPU, torch.float64)
        assert isinstance(made, NativeTensorSketch)
        assert made.sums_first is False
        tables, split = made._tables, compiled.radices(m) or []
        assert (tables.m, tables.rows, tables.cols, tables.passes) == (m, 3, 2, len(split) if made.transforms else 0)
        acc, u, v = torch.zeros(2, m, dtype=torch.float64), numbers(2, 3, 3), numbers(2, 3, 2)
        made.add_by_fft(acc, u, v, Workspace(CPU, 1 << 20))
        near(acc, TensorSketch.draw((3, 2), m).apply((u.mT @ v).numpy()), 1e-13)
        return made.transforms

    assert [transforms(m) for m in (7, 8, 14, 16, 22, 60)] == [False, True, False, True, False, True]
    assert compiled.MOST == 32768
    monkeypatch.setattr(compiled, "MOST", 60)
    assert [transforms(m) for m in (60, 64)] == [True, False]
    assert prod(compiled.radices(60) or [0]) * 4 == 60


def test_roots_of_unity_are_those_of_each_pass() -> None:
    roots, at, m = compiled.twiddles(60, [5, 3, 2]), 0, 60
    for radix in (5, 3, 2):
        for j in range(m // radix):
            for k in range(1, radix):
                assert roots[at] == pytest.approx(np.cos(2 * np.pi * j * k / m), abs=1e-15)
                assert roots[at + 1] == pytest.approx(-np.sin(2 * np.pi * j * k / m), abs=1e-15)
                at += 2
        m //= radix
    assert at == len(roots)
    assert compiled.twiddles(8, []).shape == (0,)
    assert compiled.frequencies(3, []).tolist() == [0, 1, 2]


def test_compiled_kernels_serve_cpus_in_both_precisions_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = TensorSketch.draw((3, 2), 8)
    monkeypatch.setattr(compiled, "library", lambda: {f"add_by_{r}_{d}": (r, d) for r in ("fft", "gemm")
                                                      for d in ("float32", "float64")})  # fmt: skip
    for dtype, name in ((torch.float32, "float32"), (torch.float64, "float64")):
        made: Any = make_tensor_sketch(sketch, CPU, dtype)
        assert (made._fft, made._gemm) == (("fft", name), ("gemm", name))
        assert compiled.kernels() == "compiled"
    assert type(make_tensor_sketch(sketch, CPU, torch.bfloat16)) is TorchTensorSketch
    made_of: list[Any] = []
    monkeypatch.setattr(compiled, "TorchTensorSketch", lambda *given: made_of.append(given))
    cuda = torch.device("cuda")
    make_tensor_sketch(sketch, cuda, torch.float32)
    assert made_of == [(sketch, cuda, torch.float32)]
