"""sdi-bench peers: a peer that fails or is wrong is shown as that, wherever it is shown. Peers are faked, or tiny."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from paths import ROOT
from safetensors.numpy import load_file, save_file

import sdi.fast as fast
from sdi.bench.commands import peers
from sdi.bench.commands.peers import PEERS, measure_peers
from sdi.bench.harness.plot import figure_of
from sdi.bench.harness.record import Record
from sdi.bench.work.cases import Case, gpt
from sdi.bench.workers.peers_worker import Worker
from sdi.bench.workers.remote import WorkerEnded, WorkerFailed

NO_LOOPS = "'score' failed in the worker: RuntimeError: no loops, please\nTraceback ..."


class FakeRemote:
    """Answers as a peer would, or wrongly, or not at all."""

    pid = 1

    def __init__(self, name: str) -> None:
        self.name = name

    def ask(self, do: str, save: str = "", freeze_others: bool = False) -> dict[str, Any]:
        if self.name == "dattri":
            raise WorkerFailed(NO_LOOPS)
        if save:
            sdi = np.arange(16.0).reshape(2, 2, 4) * (2.0 if self.name == "torch.func" else 1.0)
            save_file({"sdi": sdi, "tracin": sdi.sum(-1)}, save)
        self.asked = getattr(self, "asked", 0) + 1
        assert self.name != "summed" or self.asked == 1  # too slow to take turns
        return {"seconds": {"hooks": 2.0, "authors": 3.0, "summed": 100.0}.get(self.name, 4.0)}

    def __enter__(self) -> FakeRemote:
        return self

    def __exit__(self, *_: object) -> None: ...


def test_a_peer_that_fails_or_is_wrong_is_shown_as_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    (axes,) = figure_of(record).axes
    words = [text.get_text() for text in axes.texts]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [p.says for p in PEERS]
    assert (words[names.index("dattri TracIn")], words[names.index("torch.func, one by one")]) == ("fails", "wrong")
    assert record.failures == {"gpt dattri": NO_LOOPS}
    record.save(tmp_path / "p.json")
    assert Record.load(tmp_path / "p.json").failures == record.failures
    assert "failures" not in replace(record, failures={}).to_json()  # a file from before is saved again as it was


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (OSError("pip could not install x\n\nWARNING: retry\nERROR: no x"), "pip could not install x: ERROR: no x"),
        (WorkerEnded("the worker ended\nTraceback\nMemoryError"), "the worker ended: MemoryError"),
        (WorkerFailed("RuntimeError: no loops\n50%|#####"), "RuntimeError: no loops"),
        (OSError(), "OSError"),
    ],
)
def test_the_table_shows_the_line_that_says_why(error: Exception, shown: str) -> None:
    assert peers._short(error) == shown


def test_a_peer_that_fails_while_it_is_timed_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fading(FakeRemote):
        def ask(self, do: str, save: str = "", freeze_others: bool = False) -> dict[str, Any]:
            if self.name == "authors" and not save:
                raise WorkerEnded("the worker ended\nKilled")
            return super().ask(do, save, freeze_others)

    monkeypatch.setattr(peers, "peer_worker", lambda name, case: Fading(name))
    monkeypatch.setattr(peers, "status", lambda pid, name: 5_000_000)
    record = measure_peers(rounds=2, quick=True, works=("gpt",))
    rows = {row[0]: row for row in record.tables[0].rows}
    assert rows["authors' release"][3] == "fails while it is timed: the worker ended: Killed"
    assert record.failures["gpt authors"] == "the worker ended\nKilled"


def test_the_committed_picture_of_peers_shows_the_one_that_failed() -> None:
    """Its record is from before failures had a key: the word comes from the table."""
    place = ROOT / "docs" / "results" / "scalability" / "peers.json"
    left, right = figure_of(Record.load(place)).axes
    assert [len(axes.texts) for axes in (left, right)] == [len(PEERS)] * 2
    assert [text.get_text() for text in left.texts].count("fails") == 1


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
