"""Progress in a log."""

from __future__ import annotations

import re
import time

import pytest

from sdi.cli.progress import status
from sdi.run.fill import Progress
from sdi.run.minute_lines import MINUTE
from sdi.run.progress_bar import run_bar


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, to be set."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_log_has_a_line_a_minute(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with status() as tell:
        for k in range(7):
            tell(f"update {k} of [7]")
            clock[0] += MINUTE / 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["update 2 of [7]", "update 4 of [7]", "update 6 of [7]"]
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)


def test_quiet_commands_say_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with status(quiet=True) as tell, run_bar(4, 1, quiet=True) as show:
        clock[0] += 2 * MINUTE
        tell("so far")
        show(Progress(1, 1, "train", 8, 0))
    assert capsys.readouterr().err == ""


def test_a_run_in_a_log_says_how_far_and_how_fast(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with run_bar(4, 1) as show:
        show(Progress(1, 2, "train", 8, 0))
        clock[0] += 80
        show(Progress(1, 2, "train", 160, 0))
    assert capsys.readouterr().err.split(" ", 1)[1] == "checkpoint 1/2 train    160, 2.0 examples/s\n"
