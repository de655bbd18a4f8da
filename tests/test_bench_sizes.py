"""sdi-bench memory, growth, peers and report: what they measure is faked here, what they make of it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

import sdi.fast as fast
from sdi.bench import cli, growth, peers
from sdi.bench.cases import Case, gpt
from sdi.bench.chart import Chart, Series
from sdi.bench.intervals import Interval
from sdi.bench.largest import largest_batch
from sdi.bench.ledger import Ledger
from sdi.bench.memory import measure_memory, plan, with_value
from sdi.bench.peers import PEERS, measure_peers
from sdi.bench.peers_worker import Worker
from sdi.bench.plot import plot
from sdi.bench.record import Record, Table
from sdi.bench.remote import WorkerFailed


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


class FakeRemote:
    """Answers as a peer would, or wrongly, or not at all."""

    pid = 1

    def __init__(self, name: str) -> None:
        self.name = name

    def ask(self, do: str, save: str = "", freeze_others: bool = False) -> dict[str, Any]:
        if self.name == "dattri":
            raise WorkerFailed("'score' failed in the worker: RuntimeError: no loops, please\nTraceback ...")
        if save:
            sdi = np.arange(16.0).reshape(2, 2, 4) * (2.0 if self.name == "torch.func" else 1.0)
            save_file({"sdi": sdi, "tracin": sdi.sum(-1)}, save)
        self.asked = getattr(self, "asked", 0) + 1
        assert self.name != "summed" or self.asked == 1  # too slow to take turns
        return {"seconds": {"hooks": 2.0, "authors": 3.0, "summed": 100.0}.get(self.name, 4.0)}

    def __enter__(self) -> FakeRemote:
        return self

    def __exit__(self, *_: object) -> None: ...


def test_a_peer_that_fails_or_is_wrong_is_shown_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "peer_worker", lambda name, case: FakeRemote(name))
    monkeypatch.setattr(peers, "status", lambda pid, name: 5_000_000)
    record = measure_peers(rounds=1, quick=True, works=("gpt",))
    rows = {row[0]: row[1:] for row in record.tables[0].rows}
    assert rows["dattri TracIn"][2].startswith("fails: 'score' failed in the worker: RuntimeError: no loops")
    assert rows["torch.func, one by one"][1:3] == ["-", "wrong: off by 1"]
    assert rows["authors' release"][1] == "1.50"
    assert [rows["ours, summed over steps"][k] for k in (1, 5)] == ["50.00", "one run"]
    assert set(record.figures) == {f"gpt {p.name}" for p in PEERS} - {"gpt dattri", "gpt torch.func"}
    assert [bar.met for bar in record.bars] == [True, None]


def test_our_own_wrong_answer_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def worker(name: str, case: Case) -> FakeRemote:
        return FakeRemote("torch.func" if name == "hooks" else name)

    monkeypatch.setattr(peers, "peer_worker", worker)
    with pytest.raises(ValueError, match="our own answer on gpt is not right: wrong: off by 1"):
        measure_peers(rounds=1, quick=True, works=("gpt",))


@pytest.mark.parametrize(("peer", "gives"), [("torch.func", "tracin"), ("exact", "sdi"), ("hooks", "sdi")])
def test_peers_that_need_no_other_package_give_the_right_scores(peer: str, gives: str, tmp_path: Path) -> None:
    case = gpt(2, quick=True)
    worker = Worker()
    threads = torch.get_num_threads()
    worker.open(case.to_dict(), peer)
    torch.set_num_threads(threads)
    assert worker.score(save=str(tmp_path / "t"))["seconds"] > 0
    dense = fast.featurize(case.model(), fast.token_cross_entropy, case.batch(), loop=case.config.loop())
    exact = {"tracin": fast.tracin(dense, dense), "sdi": fast.sdi(dense, dense)}[gives]
    off = np.linalg.norm(load_file(tmp_path / "t")[gives] - exact) / np.linalg.norm(exact)
    allowed = next(p for p in PEERS if p.name == peer).allowed(case.m)
    assert off < allowed
    assert (off < 1e-5) == (peer != "hooks")


def make_record(kind: str) -> Record:
    lines = [Series("a", [1, 2], [1.0, 2.0], [0.1, 0.1]), Series("guide", [1, 2], [1.0, 1.0], guide=True)]
    charts = [Chart("lines", "x", "y", lines), Chart("bars", "x", "", bars=[("one", 1.0), ("two", 2.0)])]
    return Record(kind, {"seed": 0}, {"a": [1.0]}, [Table("T", ["x"], [["1"]])], charts=charts)


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
