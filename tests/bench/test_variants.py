"""sdi-bench variants: every shipped sketch and a user's own are measured, drawn and read back. No timing."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from sdi.bench import cli
from sdi.bench.commands import variants
from sdi.bench.commands.variants import Point, front, variant_work
from sdi.bench.harness.record import Record
from sdi.sketch.load import SHIPPED

OWN = '''
from sdi.sketch.shipped.rademacher import RademacherSketch

class Mine(RademacherSketch):
    """Signs, and nothing new."""
'''


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    monkeypatch.setattr(variants, "THREADS", 1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_shipped_sketches_and_ones_own_are_measured_and_drawn(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    own = "mine.py:Mine"
    chosen = [word for name in (*SHIPPED, tmp_path / own) for word in ("--sketch", str(name))]
    files = ["--json", str(tmp_path / "v.json"), "--plot", str(tmp_path / "v.png")]
    found = CliRunner().invoke(cli.app, ["variants", "--quick", *chosen, *files])
    assert found.exit_code == 0, found.output + repr(found.exception)
    record = Record.load(tmp_path / "v.json")
    rows = {(row[0], row[1]): row for row in record.tables[0].rows}
    assert set(rows) == {(name, m) for name in (*SHIPPED, own) for m in ("16", "64") if name != "exact"} | {
        ("exact", "-")
    }
    errors = {name: record.figures[f"error m=64 {name}"] for name in (*SHIPPED, own) if name != "exact"}
    assert all(len(set(of_seeds)) == 2 and min(of_seeds) > 0.01 for of_seeds in errors.values())
    assert record.figures["error m=16 exact"][0] < 1e-4
    assert int(rows["tensor", "64"][2].replace(",", "")) == 4 * 7 * 64  # seven matrices in the loop, float32
    assert "bytes" in rows["exact", "-"][-1]
    assert (tmp_path / "v.png").read_bytes()[:4] == b"\x89PNG"
    for chart in record.charts:
        assert [line.name for line in chart.lines if not line.guide] == [*(n for n in SHIPPED if n != "exact"), own]


def test_a_sketch_that_does_not_exist_is_refused_at_once() -> None:
    found = CliRunner().invoke(cli.app, ["variants", "--quick", "--sketch", "gausian"])
    assert found.exit_code == 2
    assert "gausian" in found.output
    assert "exact scores" not in found.output


def test_the_front_holds_what_nothing_beats() -> None:
    def point(name: str, size: int, error: float) -> Point:
        return Point(name, 1, size, 0, [error], 1.0)

    points = [point("a", 1, 3.0), point("beaten", 2, 3.0), point("b", 2, 2.0), point("twin", 2, 2.0)]
    assert [p.sketch for p in front(points, lambda p: p.bytes)] == ["a", "b", "twin"]


def test_the_work_is_what_was_asked_for() -> None:
    work = variant_work(sketches=["mask", "mask"], widths=[64, 16, 64], seeds=3, rounds=2, seed=5)
    assert (work.sketches, work.widths, work.seeds, work.rounds, work.case.seed) == (("mask",), (16, 64), 3, 2, 5)
    shapes = variants.draw(work.case, "exact", 1, 0).shapes.values()
    assert all(prod(shape) > max(variants.WIDTHS) for shape in shapes)  # none is kept whole
