"""sdi-bench: the bars judge both ways, the commands run at tiny sizes, and what they write can be read. No timing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import sdi.fast
from sdi.bench import cli
from sdi.bench.commands import fidelity, growth, kernels, memory, peers, runtime
from sdi.bench.commands.report import markdown
from sdi.bench.harness.bars import BARS_OF_MEMORY, BARS_OF_PEERS, BARS_OF_RUNTIME, Bar, judge
from sdi.bench.harness.chart import Chart, Series
from sdi.bench.harness.interleave import interleave
from sdi.bench.harness.other_processes import Bystanders
from sdi.bench.harness.plot import figure_of
from sdi.bench.harness.record import Record, Table
from sdi.bench.work.cases import Case, gpt, sudoku
from sdi.bench.work.contenders import contender
from sdi.bench.work.time_by_parameter import Clock
from sdi.bench.workers import environment
from sdi.bench.workers.authors_worker import Twin, token_losses
from sdi.bench.workers.environment import Environment
from sdi.bench.workers.peak import peak_over_model
from sdi.bench.workers.remote import Remote, WorkerEnded, WorkerFailed

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    for module in (runtime, kernels, fidelity, growth, peers):
        monkeypatch.setattr(module, "THREADS", 1)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(*arguments: object) -> str:
    found = CliRunner().invoke(cli.app, [str(a) for a in arguments])
    assert found.exit_code == 0, found.output + repr(found.exception)
    return found.output


@pytest.mark.parametrize(
    ("sense", "ratio", "met"), [("<=", 0.5, True), ("<=", 1.5, False), (">=", 0.5, False), (">=", 1.5, True)]
)
def test_a_bar_is_met_on_one_side_only(sense: str, ratio: float, met: bool) -> None:
    verdict = Bar("a / b", "a", "b", sense, 1.0).judge({"a": ratio * 3, "b": 3.0})
    assert verdict.value == pytest.approx(ratio)
    assert verdict.met is met
    assert verdict.word == ("met" if met else "not met")


def test_a_bar_is_met_by_equality_and_not_measured_without_its_figures() -> None:
    assert Bar("", "a", "b", "<=", 2.0).judge({"a": 4.0, "b": 2.0}).met
    assert Bar("", "a", "b", ">=", 2.0).judge({"a": 4.0, "b": 2.0}).met
    missing = Bar("", "a", "b", "<=", 2.0).judge({"a": 4.0})
    assert missing.met is None
    assert missing.row()[1:] == ["-", "<= 2.00", "not measured"]
    with pytest.raises(ValueError, match="sense must be"):
        Bar("", "a", "b", "<", 2.0)


def test_every_bar_names_figures_that_are_measured() -> None:
    timed = {f"{work} {name}" for work in runtime.WORKS for name in (*runtime.CONTENDERS, "audit")}
    assert {name for bar in BARS_OF_RUNTIME for name in (bar.top, bar.bottom)} <= timed
    timed = {f"{work} {peer.name}" for work in peers.WORKS for peer in peers.PEERS}
    assert {name for bar in BARS_OF_PEERS for name in (bar.top, bar.bottom)} <= timed
    plan = memory.plan()
    peaks = {f"{mode} {v}={x}" for mode in ("hooks", "recompute") for v, xs in plan.sweeps.items() for x in xs}
    peaks |= {f"{name} tau={tau}" for name, tau in plan.beside} | {f"largest {mode}" for mode in memory.MODES}
    assert {name for bar in BARS_OF_MEMORY for name in (bar.top, bar.bottom)} <= peaks
    figures = {"recompute tau=16": 1.0, "authors tau=16": 6.0, "recompute tau=8": 1.0, "recompute tau=32": 2.0}
    figures |= {"largest dense": 4.0, "largest recompute": 39.0}
    assert [verdict.met for verdict in judge(BARS_OF_MEMORY, figures)] == [True, False, False]


def test_contenders_take_turns_and_the_warm_up_is_thrown_away() -> None:
    order: list[str] = []

    def turn(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = interleave({"a": lambda: turn("a"), "b": lambda: turn("b")}, rounds=2)
    assert order == ["a", "b"] * 3
    assert interleave({"a": lambda: turn("a")}, rounds=1, warm=True) == {"a": [7.0]}
    assert found == {"a": [3.0, 5.0], "b": [4.0, 6.0]}
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        interleave({}, rounds=0)


def test_sizes_are_those_of_the_bars() -> None:
    assert gpt().config.parameter_count == 135069696
    assert (gpt().config.tau, gpt().examples, gpt().tokens, gpt().m) == (8, 4, 128, 2048)
    case = sudoku()
    assert (case.config.d, case.config.tau, case.examples, case.tokens, case.m) == (128, 32, 32, 81, 2048)
    assert Case.from_dict(json.loads(json.dumps(case.to_dict()))) == case


@pytest.mark.parametrize("case", [gpt(3, quick=True), sudoku(quick=True)], ids=lambda case: case.name)
def test_the_authors_worker_has_our_model(case: Case) -> None:
    model, batch = case.model(), case.batch()
    twin = Twin(case.config.to_dict())
    twin.load_state_dict(model.state_dict())
    torch.testing.assert_close(twin(batch["tokens"]), model(batch))
    torch.testing.assert_close(token_losses(twin, batch), sdi.fast.token_cross_entropy(model, batch))


def test_the_authors_worker_refuses_a_model_it_does_not_have() -> None:
    config = {**gpt(quick=True).config.to_dict(), "loop_norm": True}
    with pytest.raises(ValueError, match="written for loop_norm=False only, got True"):
        Twin(config)


def test_a_failed_install_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SDI_BENCH_CACHE", str(tmp_path))
    failed = subprocess.CompletedProcess([], 1, "", "no network")
    monkeypatch.setattr(environment.subprocess, "run", lambda *args, **kwargs: failed)
    peer = Environment("peer==1.0")
    with pytest.raises(OSError, match=r"(?s)pip could not install peer==1.0 into .*no network"):
        peer.install()
    assert not peer.home.exists()


@pytest.mark.parametrize("case", [gpt(2, quick=True), sudoku(quick=True)], ids=lambda case: case.name)
def test_the_floor_makes_no_parameter_gradient_and_leaves_the_model_as_it_came(case: Case) -> None:
    model = case.model()
    contender("floor", model, case.config, case.sketch())(case.batch())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert not model.inject._forward_hooks
    with pytest.raises(ValueError, match="contender must be one of"):
        contender("fastest", model, case.config, case.sketch())


def test_runtime_says_where_the_time_goes(tmp_path: Path) -> None:
    file = tmp_path / "runtime.json"
    run("runtime", "--quick", "--rounds", 2, "--json", file, "--plot", tmp_path / "runtime.png")
    content = json.loads(file.read_text())
    for name in ("forward", "plain", "hooks", "recompute", "summed", "sketches", "scores"):
        assert len(content["figures"][f"sudoku {name}"]) == 2
    assert [bar["value"] is None for bar in content["bars"]] == [False] * len(BARS_OF_RUNTIME)
    layers = next(t for t in content["tables"] if t["title"] == "gpt: sketches, layer by layer")
    assert sorted(row[0] for row in layers["rows"]) == sorted(
        [
            "inject.weight",
            *(f"core.*.attn.{k}.weight" for k in "qkvo"),
            *(f"core.*.mlp.{k}.weight" for k in ("up", "down")),
        ]
    )
    assert {row[5] for row in layers["rows"]} == {"2"}  # one block, two steps
    assert (tmp_path / "runtime.png").read_bytes().startswith(b"\x89PNG")
    table = run("report", file)
    assert "| ratio | measured | bar | verdict |" in table
    assert torch.__version__ in table


def test_a_quick_run_is_not_judged(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    said = run("stream", "--quick", "--folder", tmp_path, "--rounds", 1, "--json", file)
    said += run("report", file)
    run("report", file, "--out", tmp_path / "page")
    said += (tmp_path / "page" / "README.md").read_text()
    assert said.count("not judged") == 2 * 4  # two bars: printed, as Markdown, and twice on the page
    assert not re.search(r"(?<!not )\bmet\b|not met", said)
    assert [bar["met"] for bar in json.loads(file.read_text())["bars"]] == [None, None]


def drawn(chart: Chart) -> tuple[Any, Any]:
    """A chart as `plot` draws it, laid out: the figure, and its only axes."""
    figure = figure_of(Record("speed", {}, {}, [], charts=[chart]))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    return figure, axes


@pytest.mark.parametrize("title", ["short", "a title with many words that would not stand beside tick labels " * 2])
def test_a_title_stays_within_its_picture(title: str) -> None:
    figure, axes = drawn(Chart(title, "x", "", bars=[("a bar with a name that takes half of the width", 1.0)]))
    found = axes.title.get_window_extent()
    assert found.x0 >= 0
    assert found.x1 <= figure.bbox.x1
    assert axes.get_title().split() == title.split()


def test_the_figure_of_a_bar_below_zero_stays_clear_of_its_name() -> None:
    _, axes = drawn(Chart("shares", "share", "", bars=[("forward", 0.9), ("everything else", -0.02)]))
    zero = axes.transData.transform((0, 0))[0]  # names stand to the left of it
    for text in axes.texts:
        assert zero < text.get_window_extent().x0
    assert [text.get_text() for text in axes.texts] == ["0.9", "-0.02"]


@pytest.mark.parametrize(("x", "style"), [((1, 2, 4), "-"), ((1, 4, 2), "None")])
def test_lines_that_turn_back_are_drawn_as_points(x: tuple[float, ...], style: str) -> None:
    lines = [Series("a", x, (3, 2, 1)), Series("b", (1, 2, 3), (1, 2, 3))]
    _, axes = drawn(Chart("error against time", "x", "y", lines, names_at_ends=True))
    assert {line.get_linestyle() for line in axes.get_lines() if line.get_marker() != "None"} == {style}
    named = [text.get_text() for text in (axes.get_legend().get_texts() if axes.get_legend() else axes.texts)]
    assert sorted(named) == ["a", "b"]


def test_a_clock_passes_everything_on_and_counts() -> None:
    seen: list[tuple[object, ...]] = []

    class Sink:
        def open(self, *given: object) -> None:
            seen.append(("open", *given))

        def outer(self, *given: object) -> None:
            seen.append(("outer", *given))

        def rows(self, *given: object) -> None:
            seen.append(("rows", *given))

        def whole(self, *given: object) -> None:
            seen.append(("whole", *given))

    clock, u = Clock(Sink()), torch.zeros(2, 5, 3)
    clock.open(2, 4)
    clock.outer(0, u, u)
    clock.rows(1, u, u)
    clock.whole(None, u)
    assert seen == [("open", 2, 4), ("outer", 0, u, u), ("rows", 1, u, u), ("whole", None, u)]
    assert clock.seconds > 0
    assert clock.tokens == 5


def test_memory_is_watched_in_a_process_of_its_own() -> None:
    assert peak_over_model("recompute", gpt(2, quick=True)) > 0


def test_kernels_print_the_four_constants_and_the_picks(tmp_path: Path) -> None:
    file = tmp_path / "kernels.json"
    printed = run("kernels", "--quick", "--m", 256, "--json", file)
    for name in ("FFT_NS", "SCATTER_NS", "PRODUCT_NS", "MADD_NS"):
        name = f"tensor_sketch.{name}"
        assert name in printed
        assert json.loads(file.read_text())["figures"][name][0] > 0


def test_the_stream_is_timed_against_the_bare_product(tmp_path: Path) -> None:
    for _ in range(2):  # the second time finds the store made
        run("stream", "--quick", "--folder", tmp_path, "--rounds", 1, "--json", tmp_path / "s.json")
    found = Record.load(tmp_path / "s.json")
    assert {"product", "top-k", "memory in GB", "sha256"} <= set(found.figures)
    assert len(found.bars) == 2
    assert sorted(p.name for p in tmp_path.glob("stream-*")) == ["stream-300x32-0"]


@pytest.mark.slow
def test_the_store_of_a_million_is_planned_to_the_byte_and_deleted(tmp_path: Path) -> None:
    run("million", "--quick", "--folder", tmp_path / "here", "--json", tmp_path / "m.json")
    found = Record.load(tmp_path / "m.json")
    assert found.figures["planned disk"] == found.figures["disk"]
    assert found.figures["disk"][0] > 600 * 256  # a byte a number, for 600 examples
    assert all(min(values) > 0 for values in found.figures.values())
    assert list((tmp_path / "here").iterdir()) == []


class Forked:
    """A worker of `sdi-bench ranks` in a forked process, which need not import torch again."""

    def __init__(self, threads: int) -> None:
        from multiprocessing import get_context

        fork = get_context("fork")
        self.pipe, there = fork.Pipe()
        self.process = fork.Process(target=self._serve, args=(there,), daemon=True)
        self.process.start()

    @staticmethod
    def _serve(pipe: Any) -> None:
        import torch

        from sdi.bench.workers.ranks_worker import Worker

        torch.set_num_threads = lambda n: None  # a forked process has one
        worker = Worker()
        while True:
            do, more = pipe.recv()
            pipe.send(getattr(worker, do)(**more))

    def ask(self, do: str, **more: Any) -> Any:
        self.pipe.send((do, more))
        return self.pipe.recv()

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.join()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_two_ranks_are_timed_against_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdi.bench.commands.ranks._worker", Forked)
    run("ranks", "--quick", "--rounds", 1, "--json", tmp_path / "r.json")
    found = Record.load(tmp_path / "r.json")
    assert {name for name in found.figures if ":" not in name} == {"one process", "two ranks"}
    assert all(min(values) > 0 for values in found.figures.values())
    assert len(found.bars) == 1


def test_records_come_back_from_json_as_they_were(tmp_path: Path) -> None:
    verdict = Bar("a / b", "a", "b", "<=", 1.0).judge({"a": 1.0, "b": 4.0})
    record = Record("speed", {"rounds": 3}, {"a": [1.0]}, [Table("A", ["x|y"], [["1|2"]])], [verdict])
    record.save(tmp_path / "a.json")
    again = Record.load(tmp_path / "a.json")
    assert again.bars == [verdict]
    assert markdown([again]) == markdown([record])
    assert "| 1\\|2 |" in markdown([record])
    assert "| a / b | 0.250 | <= 1.00 | met |" in markdown([record])


def test_bad_input_ends_with_code_2_and_a_reason(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    for arguments, reason in (
        (["report", tmp_path / "other.json"], "not written by this version"),
        (["report", tmp_path / "none.json"], "No such file"),
        (["runtime", "--quick", "--work", "chess"], "work must be one of"),
        (["device", "--device", "cpu"], "--device must be another device than the CPU"),
        (["device", "--device", "abacus"], "--device abacus cannot be used here"),
        (["peers", "--quick", "--work", "chess"], "work must be one of"),
        (["kernels", "--quick", "--json", tmp_path / "no" / "k.json"], "--json must be in a folder that exists"),
        (["kernels", "--quick", "--plot", tmp_path / "k.pdf"], "--plot must be a .png file"),
        (["fidelity", "--d", 33], "d must be even, got 33"),
    ):
        found = CliRunner().invoke(cli.app, [str(a) for a in arguments])
        assert found.exit_code == 2
        assert reason in found.stderr


def test_a_worker_that_does_not_answer_is_ended() -> None:
    with Remote([sys.executable, "-c", "import time; time.sleep(600)"], patience=0.1) as remote:
        with pytest.raises(WorkerFailed, match=r"'run' gave no answer in 0.1 seconds"):
            remote.ask("run")
        with pytest.raises(WorkerEnded, match="the worker ended"):
            remote.ask("run")


def test_a_worker_that_fails_says_why() -> None:
    script = 'import sys; print(input(), file=sys.stderr); print(\'{"ok": false, "error": "no"}\')'
    with Remote([sys.executable, "-c", script]) as remote:
        with pytest.raises(WorkerFailed, match=r"'run' failed in the worker: no\n.*tiny"):
            remote.ask("run", tiny=True)
        with pytest.raises(WorkerEnded, match="the worker ended"):
            remote.ask("run")


def test_bystanders_count_what_others_take() -> None:
    with Bystanders() as others:
        pass
    assert others.share is None or others.share >= 0
    others.share = 0.5
    assert others.disturbed
    assert others.says == "0.50 of a core"
