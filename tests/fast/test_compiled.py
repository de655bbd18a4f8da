"""The compiled routes against PyTorch's, which are their oracle."""

from __future__ import annotations

import platform
import shutil
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sdi.fast import featurize, token_cross_entropy
from sdi.fast.model import LoopedTransformer
from sdi.fast.sketching import compiled as native
from sdi.fast.sketching.tensor_sketch import TorchTensorSketch
from sdi.fast.sketching.workspace import Workspace
from sdi.inputs.looped_config import LoopedConfig
from sdi.sketch.shipped.count_and_tensor import TensorSketch
from sdi.sketch.sketch_map import SketchMap

CPU = torch.device("cpu")
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-14}
needs_compiled = pytest.mark.skipif(native.library() is None, reason="the compiled kernels were not built")

sizes = st.one_of(st.integers(1, 40), st.sampled_from([16, 64, 130]))
shapes = st.tuples(st.integers(1, 9), st.one_of(st.integers(1, 40), st.sampled_from([64, 200])), sizes, sizes)
widths = st.one_of(st.integers(1, 130), st.sampled_from([256, 405, 512, 720, 1000, 1024, 1500, 2048, 2187, 3125, 4096]))


@pytest.fixture
def fresh() -> Any:
    """The library is looked for again, in the test and after it."""
    native.library.cache_clear()
    yield
    native.library.cache_clear()


def compiled(sketch: TensorSketch, dtype: torch.dtype) -> native.NativeTensorSketch:
    made = native.make_tensor_sketch(sketch, CPU, dtype)
    assert isinstance(made, native.NativeTensorSketch)
    return made


def outer_sum(
    tables: TorchTensorSketch,
    route: str,
    u: Tensor,
    v: Tensor,
    acc: Tensor | None = None,
    threads: int = 2,
    max_bytes: int = 1 << 20,
) -> Tensor:
    acc = torch.zeros(len(u), tables.m, dtype=tables.dtype) if acc is None else acc
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        getattr(tables, f"add_by_{route}")(acc, u, v, Workspace(CPU, max_bytes))
    finally:
        torch.set_num_threads(before)
    return acc


def assert_near(ours: Tensor, theirs: Tensor, u: Tensor, v: Tensor, tolerance: float) -> None:
    """Scaled by the norms of what is multiplied."""
    scale = (u.double().norm(dim=-1) * v.double().norm(dim=-1)).sum(dim=1)
    assert ((ours - theirs).double().norm(dim=1) <= tolerance * scale).all()


@pytest.mark.slow
@needs_compiled
@pytest.mark.parametrize("route", ["fft", "gemm"])
@settings(deadline=None, max_examples=60)
@given(shapes, widths, st.sampled_from(list(TOLERANCE)), st.integers(0, 99), st.sampled_from([1, 1 << 20]))
def test_compiled_routes_give_the_oracles_numbers(
    route: str, shape: tuple[int, int, int, int], m: int, dtype: torch.dtype, seed: int, max_bytes: int
) -> None:
    n, tokens, d_out, d_in = shape
    random = torch.Generator().manual_seed(seed)
    u = torch.randn(n, tokens, d_out, generator=random, dtype=torch.float64)
    v = torch.randn(n, tokens, d_in, generator=random, dtype=torch.float64)
    sketch = TensorSketch.draw((d_out, d_in), m, seed=seed)
    theirs = outer_sum(TorchTensorSketch(sketch, CPU, torch.float64), "gemm", u, v)
    ours = outer_sum(compiled(sketch, dtype), route, u.to(dtype), v.to(dtype), max_bytes=max_bytes)
    assert ours.dtype == dtype
    assert_near(ours, theirs, u, v, TOLERANCE[dtype])


@needs_compiled
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(
    "m", [1, 2, 3, 4, 5, 6, 8, 15, 16, 45, 64, 512, 640, 768, 1024, 1280, 2048, 2187, 3125, 4096, 9600]
)
def test_transforms_of_every_kind_of_width_give_the_oracles_numbers(m: int, dtype: torch.dtype) -> None:
    """Every radix and every last pass, within one block of points and beyond."""
    random = torch.Generator().manual_seed(m)
    u, v = (torch.randn(1, 19, d, generator=random, dtype=torch.float64) for d in (21, 6))
    sketch = TensorSketch.draw((21, 6), m)
    theirs = outer_sum(TorchTensorSketch(sketch, CPU, torch.float64), "gemm", u, v)
    ours = outer_sum(compiled(sketch, dtype), "fft", u.to(dtype), v.to(dtype), threads=1)
    assert_near(ours, theirs, u, v, TOLERANCE[dtype])


@needs_compiled
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("scale", [1e3, 1e7, 1e18, 1e-20, 1e-22])
def test_tokens_of_other_sizes_do_not_drown_each_other(dtype: torch.dtype, scale: float) -> None:
    """Two tokens share a transform, and with it the product of one's delta and the other's activation."""
    torch.manual_seed(0)
    u, v = torch.randn(2, 33, 40, dtype=dtype), torch.randn(2, 33, 72, dtype=dtype)
    factor = scale ** torch.linspace(-1, 1, 33, dtype=dtype)[torch.randperm(33)][:, None]
    u, v = u * factor, v / factor  # products as large as before
    u[:, ::5] = 0
    v[:, 1::7] = 0
    v[:, 5] *= 1e15  # of no weight
    sketch = TensorSketch.draw((40, 72), 360, seed=1)
    ours = outer_sum(compiled(sketch, dtype), "fft", u, v)
    theirs = outer_sum(TorchTensorSketch(sketch, CPU, torch.float64), "gemm", u.double(), v.double())
    assert_near(ours, theirs, u, v, TOLERANCE[dtype])


@needs_compiled
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("at", [0, 5, 10, 15, 20, 25, 30, 31, 32, 39])
def test_the_size_of_a_token_is_seen_wherever_its_largest_number_is(dtype: torch.dtype, at: int) -> None:
    """Else its delta would drown the token that shares its transform."""
    torch.manual_seed(at)
    u, v = torch.randn(1, 20, 40, dtype=dtype), torch.randn(1, 20, 12, dtype=dtype)
    u[:, 3, at] = 1e12
    v[:, 3] *= 1e-12
    sketch = TensorSketch.draw((40, 12), 64, seed=1)
    ours = outer_sum(compiled(sketch, dtype), "fft", u, v)
    theirs = outer_sum(TorchTensorSketch(sketch, CPU, torch.float64), "gemm", u.double(), v.double())
    assert_near(ours, theirs, u, v, TOLERANCE[dtype])


@needs_compiled
@pytest.mark.parametrize("large", ["u", "v"])
@pytest.mark.parametrize(("size", "sign"), [(2.0**60, -1), (2.0**60, 1), (2.0**120, 1), (2.0**120, -1)])
def test_tokens_whose_squares_are_beyond_all_numbers_are_balanced(large: str, size: float, sign: int) -> None:
    """The other side is as small as float32 can be: the power of two between them is not a number of float32."""
    torch.manual_seed(0)
    a, b = torch.rand(1, 20, 24) + 0.5, torch.rand(1, 20, 24) + 0.5
    a[:, 3] *= sign * size
    b[:, 3] *= 2.0**-146 if size > 2.0**100 else 1 / size
    u, v = (a, b) if large == "u" else (b, a)
    sketch = TensorSketch.draw((24, 24), 60, seed=1)
    ours = outer_sum(compiled(sketch, torch.float32), "fft", u, v)
    theirs = outer_sum(TorchTensorSketch(sketch, CPU, torch.float64), "gemm", u.double(), v.double())
    assert_near(ours, theirs, u, v, TOLERANCE[torch.float32])


@needs_compiled
@pytest.mark.parametrize("route", ["fft", "gemm"])
@pytest.mark.parametrize(("of_u", "of_v"), [(torch.nan, 1.0), (1.0, torch.inf), (0.0, torch.nan), (torch.nan, 0.0)])
def test_what_is_not_finite_stays_so(route: str, of_u: float, of_v: float) -> None:
    u, v = torch.randn(1, 20, 24), torch.randn(1, 20, 24)
    u[0, 3], v[0, 3] = of_u, of_v
    sketch = TensorSketch.draw((24, 24), 60, seed=1)
    assert not outer_sum(compiled(sketch, torch.float32), route, u, v).isfinite().all()


@needs_compiled
@pytest.mark.parametrize("route", ["fft", "gemm"])
def test_any_layout_is_read_and_only_its_own_part_written(route: str) -> None:
    n, tokens, d_out, d_in, m = 5, 19, 24, 33, 64
    wide = torch.randn(tokens, n, d_out + 7)
    views = [
        (wide[..., 3 : 3 + d_out].transpose(0, 1), torch.randn(n, d_in, tokens).transpose(1, 2)),
        (torch.randn(n, 1, d_out).expand(n, tokens, d_out), torch.randn(n, tokens, d_in).bfloat16()),
    ]
    sketch = TensorSketch.draw((d_out, d_in), m)
    for u, v in views:
        features = torch.ones(n, 3, 2 * m)
        outer_sum(compiled(sketch, torch.float32), route, u, v, features[:, 1, 10 : 10 + m])
        theirs = outer_sum(TorchTensorSketch(sketch, CPU, torch.float64), "gemm", u.double(), v.double())
        assert_near(features[:, 1, 10 : 10 + m] - 1, theirs, u, v, 1e-5)
        features[:, 1, 10 : 10 + m] = 1
        assert (features == 1).all()


@needs_compiled
@pytest.mark.parametrize("route", ["fft", "gemm"])
def test_long_sequences_are_summed_in_parts(route: str) -> None:
    tokens = 2 * native.LONG + 3
    u, v = torch.randn(1, tokens, 5, dtype=torch.float64), torch.randn(1, tokens, 17, dtype=torch.float64)
    sketch = TensorSketch.draw((5, 17), 30)
    theirs = outer_sum(TorchTensorSketch(sketch, CPU, torch.float64), "gemm", u, v)
    assert_near(outer_sum(compiled(sketch, torch.float64), route, u, v), theirs, u, v, 1e-14)


@needs_compiled
@pytest.mark.parametrize("route", ["fft", "gemm"])
@pytest.mark.parametrize("n", [1, 3, 20])
def test_numbers_do_not_depend_on_the_number_of_threads(route: str, n: int) -> None:
    u, v = torch.randn(n, 150, 40), torch.randn(n, 150, 56)
    tables = compiled(TensorSketch.draw((40, 56), 256), torch.float32)
    one, *more = (outer_sum(tables, route, u, v, threads=threads) for threads in (1, 2, 7))
    assert all(torch.equal(one, other) for other in more)


@needs_compiled
@pytest.mark.parametrize("steps", [True, False])
@pytest.mark.parametrize("m", [32, 48])
def test_features_are_the_same_with_and_without(
    m: int, steps: bool, fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = LoopedConfig(vocab=7, classes=5, d=16, heads=2, tau=3)
    model = LoopedTransformer.init(config, scale=0.2).double()
    random = torch.Generator().manual_seed(1)
    batch = {
        "tokens": torch.randint(0, 7, (3, 9), generator=random),
        "targets": torch.randint(0, 5, (3, 9), generator=random),
    }
    sketch = SketchMap.draw({name: config.shapes()[name] for name in config.loop().select(config.shapes())}, m)
    ours = featurize(model, token_cross_entropy, batch, loop=config.loop(), sketch=sketch, steps=steps)
    monkeypatch.setenv("SDI_NATIVE", "0")
    native.library.cache_clear()
    theirs = featurize(model, token_cross_entropy, batch, loop=config.loop(), sketch=sketch, steps=steps)
    assert abs(ours.values - theirs.values).max() <= 1e-12 * abs(theirs.values).max()
    assert (ours.values != theirs.values).any()  # or the two were not two


def test_pytorch_serves_where_it_is_asked_for(fresh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDI_NATIVE", "0")
    assert native.kernels() == "torch"
    made = native.make_tensor_sketch(TensorSketch.draw((8, 8), 4), CPU, torch.float32)
    assert type(made) is TorchTensorSketch


def test_pytorch_serves_where_the_cpu_cannot(fresh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "find_spec", lambda name: SimpleNamespace(origin="there"))
    monkeypatch.setattr(native.ctypes, "CDLL", lambda path: SimpleNamespace(usable=lambda *sizes: 0))
    assert native.kernels() == "torch"


@needs_compiled
@pytest.mark.parametrize("structure", ["Tables", "Work"])
def test_pytorch_serves_where_older_code_was_built(structure: str, fresh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Longer(getattr(native, structure)):  # type: ignore[misc]
        _fields_ = (("more", native.ctypes.c_longlong),)

    monkeypatch.setattr(native, structure, Longer)
    assert native.kernels() == "torch"


@pytest.mark.parametrize("found", ["nothing", "not a library"])
def test_pytorch_serves_where_nothing_was_built(
    found: str, fresh: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "_tensor_sketch.so"
    file.write_text("built elsewhere")
    spec = None if found == "nothing" else SimpleNamespace(origin=str(file))
    monkeypatch.setattr(native, "find_spec", lambda name: spec)
    assert native.kernels() == "torch"


def test_it_is_built_where_gcc_is(fresh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build is optional, so nothing else would say that it failed."""
    monkeypatch.delenv("SDI_NATIVE", raising=False)
    if shutil.which("gcc") and platform.machine() == "x86_64" and " avx2 " in Path("/proc/cpuinfo").read_text():
        assert native.kernels() == "compiled"


@given(st.integers(1, 5000))
def test_passes_multiply_to_m_and_every_frequency_is_somewhere(m: int) -> None:
    split = native.radices(m)
    smooth = all(m % p for p in range(7, m + 1) if all(p % k for k in range(2, int(p**0.5) + 1)))
    assert (split is not None) == smooth
    if split is not None:
        assert m // prod(split) in (1, 2, 4, 8)
        assert m % prod(split) == 0
        assert sorted(native.frequencies(m, split).tolist()) == list(range(m))


@needs_compiled
@pytest.mark.parametrize("route", ["fft", "gemm"])
@pytest.mark.parametrize("elsewhere", [0, 1, 2])
def test_kernels_refuse_a_tensor_on_another_device(elsewhere: int, route: str) -> None:
    tables = compiled(TensorSketch.draw((3, 2), 16), torch.float32)
    given = [torch.zeros(1, 16), torch.zeros(1, 4, 3), torch.zeros(1, 4, 2)]
    given[elsewhere] = given[elsewhere].to("meta")
    where = ", ".join("meta" if k == elsewhere else "cpu" for k in range(3))
    with pytest.raises(RuntimeError, match=f"for tensors on the CPU, got {where}; set SDI_NATIVE=0"):
        getattr(tables, f"add_by_{route}")(*given, Workspace(CPU, 1 << 20))
