"""The one seam: the core names no backend, costs no torch, and the rooms answer to one name only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOMS, ROOT

import sdi


def imported(source: str) -> set[str]:
    """Every module a source names in an import statement, wherever it stands; relative ones as if within sdi."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(filter(None, ("sdi" if node.level else "", node.module or "")))
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return names


def rooms_named(source: str) -> set[str]:
    return {
        room for room in ROOMS for name in imported(source) if (name + ".").startswith((f"sdi.{room}.", f"{room}."))
    }


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize(
    "line",
    [
        "import sdi.fast",
        "import numpy, sdi.fast.follow.one_pass as e",
        "from sdi.fast import featurize",
        "from sdi import fast",
        "from . import fast",
        "from .fast import featurize",
        "import fast",
        "def f():\n    if True:\n        from sdi.fast.follow.one_pass import x",
    ],
)
def test_the_search_for_imports_finds_a_backend_however_it_is_named(line):
    assert rooms_named(line) == {"fast"}


@pytest.mark.parametrize(
    "line", ["import sdi", "from sdi import features", "import fastparquet", "'import sdi.fast'", "import sdi.faster"]
)
def test_the_search_for_imports_finds_nothing_else(line):
    assert rooms_named(line) == set()


@pytest.mark.parametrize("path", sources("sdi"), ids=lambda path: path.name)
def test_no_file_of_the_core_names_a_room_in_an_import(path):
    assert rooms_named(path.read_text()) == set()


@pytest.mark.parametrize("path", sources("reference") + sources("proofs_checks"), ids=lambda path: path.name)
def test_the_reference_and_the_proofs_do_not_import_torch(path):
    if path.name in (
        "fast_agrees.py",
        "preconditioned.py",
        "through_training.py",
    ):  # the statements about the fast backend
        return
    assert not [name for name in imported(path.read_text()) if name.split(".")[0] == "torch"]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_importing_sdi_costs_no_torch_and_no_backend(where, tmp_path):
    code = "import sdi, sys; print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'scipy', 'typer'}))"
    code += f"; print([room for room in {ROOMS} if 'sdi.' + room in sys.modules])"
    done = python("-c", code, cwd=ROOT if where == "inside" else tmp_path)
    assert done.stderr == ""
    assert done.stdout.split("\n") == ["[]", "[]", ""]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_under_its_bare_name_says_what_to_import_instead(room):
    done = python("-c", f"import {room}", cwd=ROOT)
    assert done.returncode == 1
    message = f"ImportError: this folder is installed as sdi.{room}: write `import sdi.{room}`, not `import {room}`"
    assert done.stderr.rstrip().endswith(message)


def test_a_backend_comes_by_name():
    assert sdi.backend("reference").__name__ == "sdi.reference"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope", r"^backend must be one of \('reference', 'fast'\), got 'nope'$"),
        ("fasst", r"got 'fasst'; did you mean 'fast'\?$"),
        ("bench", r"got 'bench'"),
        (None, r"got None"),
    ],
)
def test_an_unknown_backend_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        sdi.backend(name)


def test_every_public_name_is_there():
    assert all(hasattr(sdi, name) for name in sdi.__all__)
    assert sdi.__all__ == sorted(sdi.__all__)
