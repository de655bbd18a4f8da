"""The routes of TensorSketch: their numbers, what they take at a time, what the compiled kernels are called with."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from twin_cases import BYTES, CPU, DTYPES, near, numbers, row_sums

from sdi.fast.sketching import compiled, tensor_sketch
from sdi.fast.sketching.compiled import NativeTensorSketch, make_tensor_sketch
from sdi.fast.sketching.tensor_sketch import TorchCountSketch, TorchTensorSketch
from sdi.fast.sketching.workspace import Workspace
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch


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
                                      (3, 320, 5, 5), (17, 9999, 1, 5), (0, 64, 1, 1), (3, 9999, 5, 5)):  # fmt: skip
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


class Noting(Workspace):
    """Notes the first two sizes of every buffer that is taken."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(CPU, max_bytes)
        self.taken: dict[str, list[tuple[int, ...]]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        self.taken.setdefault(name, []).append(shape[:2])
        return super().take(name, shape, dtype)


def test_pytorchs_routes_take_as_much_at_a_time_as_the_workspace_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TorchTensorSketch(TensorSketch.draw((6, 4), 8), CPU, torch.float64)
    u, v, acc = numbers(5, 3, 6), numbers(5, 3, 4), torch.zeros(5, 8, dtype=torch.float64)
    each = 4 * 8 * 8  # bytes of a token in the fft route: two sketches, two spectra
    for max_bytes, parts in ((1, [(1, 1)] * 15), (2 * each - 1, [(1, 1)] * 15), (2 * each, [(1, 2), (1, 1)] * 5),
                             (6 * each - 1, [(1, 3)] * 5), (6 * each, [(2, 3), (2, 3), (1, 3)])):  # fmt: skip
        work = Noting(max_bytes)
        made.add_by_fft(acc, u, v, work)
        assert work.taken["signed sides"] == parts
    each = 8 * 6 * 4  # bytes of a gradient
    for max_bytes, sizes in ((1, [1] * 5), (2 * each - 1, [1] * 5), (2 * each, [2, 2, 1])):
        work = Noting(max_bytes)
        made.add_by_gemm(acc, u, v, work)
        assert [n for n, _ in work.taken["G"]] == sizes
    assert tensor_sketch.GEMM_BYTES == 1 << 20
    monkeypatch.setattr(tensor_sketch, "GEMM_BYTES", 3 * each)
    work = Noting(1 << 30)
    made.add_by_gemm(acc, u, v, work)
    assert [n for n, _ in work.taken["G"]] == [3, 2]

    class Rows(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is Tensor.scatter_add_:
                seen.append(len(args[0]))
            return func(*args, **(kwargs or {}))

    each = 8 * 4 * 3 * 3  # three arrays of three tokens of four numbers
    for max_bytes, sizes in ((1, [1] * 5), (2 * each - 1, [1] * 5), (2 * each, [2, 2, 1])):
        seen: list[int] = []
        with Rows():
            made.add_rows(acc, torch.zeros(5, 3).long(), v, Workspace(CPU, max_bytes))
        assert seen == sizes


def test_numbers_are_converted_to_what_they_are_added_to() -> None:
    made, acc = TorchCountSketch(CountSketch.draw((9,), 4), CPU, torch.float32), torch.zeros(3, 4)
    made.add(acc, numbers(3, 9))
    near(acc, CountSketch.draw((9,), 4).apply(numbers(3, 9).numpy()), 1e-6)
    for dtype in DTYPES:
        tables = TorchTensorSketch(TensorSketch.draw((6, 4), 8), CPU, dtype)
        assert tables.rows.s.dtype == tables.cols.s.dtype == dtype


def test_structures_are_those_of_the_c_source() -> None:
    """Field by field, in this order: whole numbers, then pointers."""
    source = Path(compiled.__file__).with_name("tensor_sketch.c").read_text()
    for structure in (compiled.Tables, compiled.Work):
        body = source[: source.index(f"}} {structure.__name__};")].rpartition("typedef struct {")[2]
        declared: list[tuple[str, type]] = []
        for line in body.split(";")[:-1]:
            kind = ctypes.c_void_p if "*" in line else ctypes.c_longlong
            words = line.replace("const", "").replace("*", "").split(None, 1)[1]
            declared += [(name.strip(), kind) for name in words.split(",")]
        assert structure._fields_ == declared
    assert compiled._fields("n m", "x") == [("n", ctypes.c_longlong), ("m", ctypes.c_longlong), ("x", ctypes.c_void_p)]


def test_passes_are_the_fewest_and_whole() -> None:
    wanted = {1: [], 2: [], 4: [], 8: [], 16: [4], 32: [4], 64: [4, 4], 3: [3], 5: [5], 6: [3], 10: [5], 24: [3],
              7: None, 14: None, 48: [3, 4]}  # fmt: skip
    assert {m: compiled.radices(m) for m in wanted} == wanted
    assert compiled.frequencies(12, [3]).dtype.kind == "i"


@pytest.mark.skipif(compiled.library() is None, reason="the compiled kernels were not built")
def test_an_activation_whose_numbers_are_side_by_side_is_not_copied() -> None:
    made: Any = make_tensor_sketch(TensorSketch.draw((6, 10), 8), CPU, torch.float64)
    view = numbers(5, 3, 9)[:, :, 2:8]
    assert made._dense(view).data_ptr() == view.data_ptr()
    every_second = numbers(5, 3, 12)[:, :, ::2]
    assert made._dense(every_second).stride(2) == 1


@pytest.mark.skipif(compiled.library() is None, reason="the compiled kernels were not built")
@pytest.mark.parametrize("route", ["fft", "gemm"])
@pytest.mark.parametrize("dtype", list(DTYPES), ids=str)
def test_kernels_read_nothing_beyond_their_tokens_and_columns(route: str, dtype: torch.dtype) -> None:
    """All around is not a number: even times 0 it would be seen. Tokens and columns leave a rest of every kind."""
    for tokens, rows, cols in ((1, 3, 5), (5, 9, 11), (9, 11, 17), (13, 2, 9), (19, 21, 6)):
        sketch = TensorSketch.draw((rows, cols), 12)
        u, v = (torch.full((3, tokens + 40, d + 40), torch.nan, dtype=dtype) for d in (rows, cols))
        inner = [x[:, 20 : 20 + tokens, 20 : 20 + d] for x, d in ((u, rows), (v, cols))]
        for seed, x in enumerate(inner):
            x.copy_(numbers(*x.shape, seed=seed))
        acc = torch.zeros(3, 12, dtype=dtype)
        made = make_tensor_sketch(sketch, CPU, dtype)
        getattr(made, f"add_by_{route}")(acc, *inner, Workspace(CPU, 1 << 20))
        near(acc, sketch.apply((inner[0].mT @ inner[1]).double().numpy()), DTYPES[dtype] * 4)
