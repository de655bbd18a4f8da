"""fuzz_files: harmed folders are refused or say the same, and a library that checks less would be caught."""

from __future__ import annotations

import pytest

from sdi.bench.commands.fuzz_files import fuzz_files, link

CHECKS = ("result.result_file", "store.manifest", "store.sidecar", "run.run_record")


@pytest.mark.slow
def test_harmed_folders_are_refused_or_say_the_same() -> None:
    said: list[str] = []
    counts = fuzz_files(60, 0, said.append)
    assert counts.bad == []
    assert counts.refused + counts.identical == 60
    assert counts.refused > 30
    assert said[-1] == "60 of 60 folders, 0 bad"


@pytest.mark.slow
def test_without_seals_some_would_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in CHECKS:
        monkeypatch.setattr(f"sdi.{module}.is_whole", lambda *arguments: True)
    monkeypatch.setattr("sdi.run.run_record.RunRecord.find_result", lambda record: record.result)
    assert fuzz_files(200, 0).different > 0


@pytest.mark.slow
def test_without_owners_some_would_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdi.store.store.Store._owner", lambda store, shard: {})
    assert fuzz_files(200, 0).different > 0


@pytest.mark.slow
def test_if_links_were_followed_it_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdi.store.lock.os.O_NOFOLLOW", 0)
    monkeypatch.setattr("sdi.bench.commands.fuzz_files.HARMS", (link,))
    assert fuzz_files(60, 0).different > 0
