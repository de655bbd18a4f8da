"""sdi-bench memory, growth and report: what they measure is faked here, what they make of it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sdi.bench import cli
from sdi.bench.commands import growth
from sdi.bench.commands.memory import measure_memory, plan, with_value
from sdi.bench.harness.chart import Chart, Series
from sdi.bench.harness.intervals import Interval
from sdi.bench.harness.ledger import Ledger
from sdi.bench.harness.plot import figure_of, plot
from sdi.bench.harness.record import Record, Table
from sdi.bench.work.cases import Case
from sdi.bench.work.largest_batch import largest_batch


@pytest.mark.parametrize("budget", [0.5, 1.0, 5.0, 99.0, 1000.0, 12345.0])
@pytest.mark.parametrize("bend", [0.7, 1.0, 1.4])
def test_the_largest_batch_fits_and_a_slightly_larger_one_does_not(budget: float, bend: float) -> None:
    tried = []

    def peak(n: int) -> float:
        tried.append(n)
        return n**bend + 3 * (n > 20)  # a jump as well

    found = largest_batch(peak, budget, most=1 << 40)
    assert found == 0 or peak(found) <= budget
    assert peak(found + max(1, found // 20)) > budget
    assert len(tried) <= 25
    assert len(tried) == len(set(tried[:-2])) + 2  # nothing is measured twice


def test_the_search_ends_at_a_most() -> None:
    assert largest_batch(lambda n: 0.0, budget=1.0, most=100) == 100


def fake_peak(name: str, case: Case) -> float:
    tau, n, m = case.config.tau, case.examples, case.m
    per_example = {"dense": tau * 1000.0, "hooks": tau * 100.0 + m, "recompute": 90.0 + tau, "plain": 110.0 * tau}
    return per_example[name] * n


def test_memory_sweeps_searches_and_resumes(tmp_path: Path) -> None:
    work, asked = plan(quick=True, budget=200_000), []

    def peak(name: str, case: Case) -> float:
        asked.append((name, case))
        return fake_peak(name, case)

    file = tmp_path / "m.json"
    record = measure_memory(work, authors=False, ledger=Ledger(file), peak=peak)
    figures = record.figures
    assert figures["hooks tau=4"] == [fake_peak("hooks", with_value(work.base, "tau", 4))]
    assert figures["largest dense"] == [50.0]  # 200,000 / (4 x 1000)
    assert figures["largest recompute"][0] / 50 > 10
    assert [bar.met for bar in record.bars] == [None, None, True]
    measured = len(asked)
    again = measure_memory(work, authors=False, ledger=Ledger(file), peak=peak)
    assert (again.figures, len(asked)) == (figures, measured)


def test_growth_verdicts_need_a_narrow_interval() -> None:
    assert growth.verdict(Interval(1.1, 0.0), 1.0, 1.0) == "yes"
    assert growth.verdict(Interval(1.2, 0.0), 1.0, 1.0) == "no"
    assert growth.verdict(Interval(1.0, float("inf")), 1.0, 1.0) == "too noisy"
    assert growth.verdict(Interval(0.5, 0.1), 0.0, 1.0) == "yes"


def test_growth_fits_what_each_size_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(sweep: growth.Sweep, rounds: int, progress: Any) -> list[float]:
        return [float(v) ** (2 if sweep.variable == "L" else 1) for v in sweep.values]

    def peaks(sweep: growth.Sweep, progress: Any) -> dict[str, list[float]]:
        return {"hooks": [1e6 * v for v in sweep.values], "recompute": [5e6] * len(sweep.values)}

    scoring = {"time": [1.0, 2.0, 4.0], "scoring": [1e6, 2e6, 4e6]}
    monkeypatch.setattr(growth, "_times", times)
    monkeypatch.setattr(growth, "_peaks", peaks)
    monkeypatch.setattr(growth, "_scoring", lambda *_: scoring)
    record = growth.measure_growth(1, quick=True)
    rows = {(row[0], row[1]): (row[3], row[5]) for row in record.tables[0].rows}
    assert rows["L", "time"] == ("2.000 ± 0.000", "yes")
    assert rows["tau", "memory, recompute"] == ("0.000 ± 0.000", "yes")
    assert rows["B", "memory, recompute"] == ("0.000 ± 0.000", "no")
    assert rows["n", "memory of scoring"][0] == "1.000 ± 0.000"
    assert len(record.charts) == 6


@pytest.mark.parametrize(("variable", "value"), [("B", 5), ("tau", 3), ("L", 12), ("d", 24), ("m", 48)])
def test_each_sweep_changes_its_own_variable(variable: str, value: int) -> None:
    sweep = next(s for s in growth.sweeps(quick=True) if s.variable == variable)
    case = sweep.case(value)
    c = case.config
    found = {"B": case.examples, "tau": c.tau, "L": case.tokens, "d": c.d, "m": case.m}
    base = sweep.base
    assert found == {
        "B": base.examples, "tau": base.config.tau, "L": base.tokens, "d": base.config.d, "m": base.m, variable: value,
    }  # fmt: skip


def test_a_line_that_is_noise_is_drawn_as_that() -> None:
    rows = [["n", "time", "1.0", "yes", "2 ms", "4 ms"], ["n", "scoring", "-0.7", "too noisy", "6 MB", "1 MB"]]
    lines = [Series(name, [1, 2], [1.0, 2.0]) for name in ("time", "scoring")]
    record = Record("growth", {}, {}, [Table("Exponents", (), rows)], charts=[Chart("Growth", "n", "y", lines)])
    (axes,) = figure_of(record).axes
    named = [text.get_text() for text in axes.get_legend().get_texts()]
    assert named == ["time", "scoring, 6 MB to 1 MB:\ntoo noisy to fit"]


def make_record(kind: str) -> Record:
    lines = [Series("a", [1, 2], [1.0, 2.0], [0.1, 0.1]), Series("guide", [1, 2], [1.0, 1.0], guide=True)]
    charts = [Chart("lines", "x", "y", lines), Chart("bars", "x", "", bars=[("one", 1.0), ("two", 2.0)])]
    return Record(kind, {"seed": 0}, {"a": [1.0]}, [Table("T", ["x"], [["1"]])], charts=charts)


@pytest.mark.slow
def test_a_report_fills_a_folder(tmp_path: Path) -> None:
    files = []
    for kind in ("fidelity", "memory"):
        make_record(kind).save(tmp_path / f"{kind}-1.json")
        files.append(str(tmp_path / f"{kind}-1.json"))
    out = tmp_path / "results"
    out.mkdir()
    (out / "NOTES.md").write_text("## What to know\n\nA neighbour was busy.\n")
    assert CliRunner().invoke(cli.app, ["report", *files, "--out", str(out)]).exit_code == 0
    names = ["NOTES.md", "README.md", "fidelity.json", "fidelity.png", "memory.json", "memory.png"]
    assert sorted(p.name for p in out.iterdir()) == names
    page = (out / "README.md").read_text()
    assert "![fidelity](fidelity.png)" in page
    assert page.index("A neighbour was busy.") < page.index("## Fidelity")
    again = Record.load(out / "memory.json")
    assert again.to_json() == Record.load(tmp_path / "memory-1.json").to_json()
    assert [len(chart.lines) + len(chart.bars) for chart in again.charts] == [2, 2]
    twice = CliRunner().invoke(cli.app, ["report", files[0], files[0], "--out", str(out)])
    assert twice.exit_code == 2
    assert "one record of each command" in twice.stderr


def test_nothing_to_draw_and_no_matplotlib_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        plot(Record("authors", {}, {}, []), tmp_path / "a.png")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    found = CliRunner().invoke(cli.app, ["growth", "--quick", "--plot", str(tmp_path / "g.png")])
    assert found.exit_code == 2
    assert "pip install 'sdi-influence[plot]'" in found.stderr


def test_a_ledger_must_be_opened_and_ends_with_the_command(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.json")
    with pytest.raises(RuntimeError, match="must be opened"):
        ledger.once("x", lambda: 1)
    ledger.open({})
    assert ledger.once("x", lambda: 1) == 1
    assert json.loads((tmp_path / "a.json.so-far").read_text())["answers"] == {"x": 1}
    ledger.close()
    assert not list(tmp_path.iterdir())
