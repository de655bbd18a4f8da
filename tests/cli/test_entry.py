"""Ways to the command: `sdi`, `python -m sdi`, and a shell's completion."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import sdi

pytestmark = pytest.mark.slow


def run(*command: str, **more: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more}, timeout=60, check=True)
    return done.stdout


@pytest.mark.parametrize("command", [("sdi",), (sys.executable, "-m", "sdi")])
def test_the_command_and_the_module_are_one(command: tuple[str, ...]) -> None:
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    assert run(*command, "--version", PATH=path) == f"sdi {sdi.__version__}\n"


@pytest.mark.parametrize(("typed", "offered"), [("sdi ver", {"verify"}), ("sdi s", {"score"})])
def test_a_shell_completes_commands(typed: str, offered: set[str]) -> None:
    out = run(sys.executable, "-m", "sdi", _SDI_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD="1")
    assert set(out.split()) == offered
