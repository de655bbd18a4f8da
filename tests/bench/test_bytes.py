"""sdi-bench bytes: smaller numbers cost what they say and little else, and the bars say what rounding adds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sdi.bench.commands import bytes as command
from sdi.bench.commands.bytes import byte_work, measure_bytes


@pytest.mark.slow
def test_int8_is_a_quarter_of_the_bytes_and_its_bars_hold_its_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "THREADS", torch.get_num_threads())
    record = measure_bytes(byte_work(True, None, 2, 0))
    assert len(record.tables[0].rows) == 6
    figures = record.figures
    blocks = 8  # with 64 numbers, as m has it; four bytes of scale for each
    for m in (16, 64):
        whole, half, byte = (figures[f"bytes m={m} {dtype}"][0] for dtype in ("float32", "float16", "int8"))
        assert half == whole // 2 + 4
        assert (byte - whole // 4) % 4 == 0
        assert whole // 4 < byte <= whole // 4 + 4 * 3 * blocks
        errors = [np.mean(figures[f"error m={m} {dtype}"]) for dtype in ("float32", "float16", "int8")]
        assert errors[1] == pytest.approx(errors[0], rel=0.01)
        assert errors[2] == pytest.approx(errors[0], rel=0.2)
        assert errors[2] != errors[0]
    shares = [figures[f"rounding m=64 {dtype}"][0] for dtype in ("float32", "float16", "int8")]
    assert shares[0] == 0 < shares[1] < shares[2] < 0.01
