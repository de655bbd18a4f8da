"""The engine on another device than the CPU: a pretend one (`pretend_device`), which refuses mixed devices.

In a process of its own: PyTorch starts the threads of its devices with the first backward pass.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest
import torch

from sdi import TensorSketch
from sdi.bench.work.device_checks import ALLOWED
from sdi.fast.sketching.compiled import NativeTensorSketch, library, make_tensor_sketch
from sdi.fast.sketching.tensor_sketch import TorchTensorSketch
from sdi.fast.sketching.workspace import Workspace
from sdi.sketch.load import SHIPPED

SCRIPT = Path(__file__).parents[1] / "helpers" / "on_pretend_device.py"
LOSSES = FEATURES = BUFFERS = SECOND_RUNS = 1  # each is read once in a batch: the losses are checked on the host


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(torch._C, "_acc"), reason="this PyTorch has no device types in Python")
@pytest.mark.skipif(which("g++") is None, reason="the pretend device needs g++")
def test_another_device_gives_the_cpus_numbers_and_the_host_hardly_waits(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["failures"] == {}
    assert found["verdict"] == "22 of 22 checks agree with the CPU"
    assert found["tables"] == ["pretend", "sudoku"]
    assert max(found["apart"].values()) <= ALLOWED[torch.float32] / 10
    waits = found["waits by sketch"]
    for name in SHIPPED:
        assert waits[f"{name}, hooks"] == {"to the host": LOSSES + FEATURES}
        assert waits[f"{name}, recompute"] == {"to the host": LOSSES + FEATURES + SECOND_RUNS}
    read_once = LOSSES + FEATURES + BUFFERS
    # Three calls: one by name is compared with autograd's sum; a replayed one with its output, twice, and its sum.
    assert found["waits by core"]["rows of all examples"] == {"to the host": read_once, "item": 3}
    assert found["waits by core"]["a module that is replayed"] == {"to the host": read_once, "item": 3 + 9}
    assert found["waits by core"]["convolution and buffers"] == {"to the host": read_once, "item": 3 + 9}
    # Rows that are weighed: their sizes in both passes, of each call; then where they go.
    assert found["waits by core"]["rows in another order"]["to the host"] <= read_once + 9
    assert found["double"] == "none was made"
    assert "got pretend and cpu" in found["mixed"]
    assert found["state"].startswith("CoverageError: a Counting gives another output when it is run again")


def test_compiled_kernels_are_for_the_cpu_alone() -> None:
    sketch = TensorSketch.draw((4, 3), 8, name="w")
    assert type(make_tensor_sketch(sketch, torch.device("meta"), torch.float32)) is TorchTensorSketch
    if library() is not None:
        assert type(make_tensor_sketch(sketch, torch.device("cpu"), torch.float32)) is NativeTensorSketch


@pytest.mark.skipif(library() is None, reason="the kernels were not compiled")
@pytest.mark.parametrize("which", ["acc", "u", "v"])
@pytest.mark.parametrize("route", ["add_by_fft", "add_by_gemm"])
def test_compiled_kernels_refuse_the_addresses_of_another_device(which: str, route: str) -> None:
    tables = make_tensor_sketch(TensorSketch.draw((4, 3), 8, name="w"), torch.device("cpu"), torch.float32)
    given = {"acc": torch.zeros(2, 8), "u": torch.ones(2, 5, 4), "v": torch.ones(2, 5, 3)}
    given[which] = given[which].to("meta")
    with pytest.raises(RuntimeError, match=r"compiled kernels are for tensors on the CPU, got .*meta"):
        getattr(tables, route)(given["acc"], given["u"], given["v"], Workspace(torch.device("cpu"), 1 << 20))
