"""Sinks, the accumulator they add to, and the buffers they work in, against the NumPy definition of each sketch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from twin_cases import CPU, CUDA, DTYPES, Counting, OnOneDevice, drawn, near, numbers, row_sums

from sdi import SketchMap
from sdi.fast.sketching import hadamard, sinks
from sdi.fast.sketching.device_sketch import TorchSketch
from sdi.fast.sketching.sinks import Accumulator, CountSink, KeepSink, TensorSink, make_sinks
from sdi.fast.sketching.tensor_sketch import TorchTensorSketch
from sdi.fast.sketching.workspace import Workspace
from sdi.sketch.protocol import matrix_shape
from sdi.sketch.shipped.count_and_tensor import TensorSketch


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


def test_sinks_and_buffers_are_on_the_device_that_is_asked_for() -> None:
    with OnOneDevice() as mode:
        work = Workspace(CUDA, 1 << 20)
        work.take("x", (2,), torch.float32)
        assert (mode.made, work.device) == (1, CUDA)
        sketch = SketchMap.draw({"b": (9,), "w": (6, 5), "g": (6, 7)}, 7, sketch={"g": "gaussian", "*": "tensor"})
        acc, tables = Accumulator(sketch, False, torch.float32, CUDA), {}
        made: Any = make_sinks(acc, work, tables)
        assert mode.made == 1 + 2 + 4 + 1
        assert [tables[k].s.dtype if k == "b" else tables[k].dtype for k in "bwg"] == [torch.float32] * 3
        assert tables["w"].rows.s.dtype == tables["w"].cols.s.dtype == torch.float32
        made["g"].open(2, 1)
        assert mode.made == 9
        made["g"].outer(0, numbers(2, 3, 6), numbers(2, 3, 7))
        assert made["g"].sum is not None
        assert mode.made == 10
    hadamard._matrix.cache_clear()
    with OnOneDevice() as mode:
        hadamard._matrix(4, CUDA, torch.float32)
        assert mode.made == 1


def test_routes_are_chosen_by_the_number_of_tokens() -> None:
    seen: list[int] = []
    made, work = TorchSketch(drawn("gaussian", (4, 3)), CPU, torch.float64), Workspace(CPU, 1 << 20)
    made.twin = Counting(forms=False)
    made.twin.forms = lambda tokens: bool(seen.append(tokens))
    made.add_outer(torch.zeros(2, 6, dtype=torch.float64), numbers(2, 5, 4), numbers(2, 5, 3), work)
    sketch = SketchMap({"w": TensorSketch.draw((6, 4), 7)}, {"w": (6, 4)})
    acc = Accumulator(sketch, False, torch.float64, CPU)
    sink: Any = make_sinks(acc, work, {})["w"]
    sink.open(2, 1)
    for tables in (sink.tables, TorchTensorSketch(sketch.sketches["w"], CPU, torch.float64)):  # type: ignore[arg-type]
        tables.sums_first = True
        tables.route = lambda tokens: seen.append(tokens) or "gemm"
        tables.add_outer(torch.zeros(2, 7, dtype=torch.float64), numbers(2, 5, 6), numbers(2, 5, 4), work)
    sink.outer(0, numbers(2, 5, 6), numbers(2, 5, 4))
    assert seen == [5, 5, 5, 5]


def test_a_gradient_outside_the_loop_has_a_place_of_its_own_with_one_step_too() -> None:
    sketch = SketchMap.keep({"b": (3,)})
    acc = Accumulator(sketch, True, torch.float64, CPU)
    sink = make_sinks(acc, Workspace(CPU, 1), {})["b"]
    with pytest.raises(AssertionError, match=r"^a gradient arrived before the forward pass had ended"):
        acc.at(0, sketch.blocks[0])
    sink.open(2, 1)
    sink.whole(None, torch.ones(2, 3))
    values, outside = acc.finish()
    assert not values.any()
    assert outside is not None
    assert (outside == 1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("where", ["cpu", "meta"])
def test_numbers_are_kept_in_the_type_and_on_the_device_asked_for(where: str, dtype: torch.dtype) -> None:
    sketch = SketchMap.keep({"w": (2, 3)})
    acc = Accumulator(sketch, True, dtype, torch.device(where))
    acc.open(2, 4)
    assert acc.values is not None
    assert (acc.values.shape, acc.values.dtype, acc.values.device.type) == ((2, 4, 6), dtype, where)
