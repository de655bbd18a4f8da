"""The reference room keeps to itself: no torch, no bare name, and its examples are true."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest
from paths import ROOT

import sdi.reference

MODULES = ["sdi.reference", *(f"sdi.reference.{m.name}" for m in pkgutil.iter_modules(sdi.reference.__path__))]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.slow
def test_the_reference_backend_never_imports_torch() -> None:
    done = run("import sdi.reference, sys; assert 'torch' not in sys.modules; assert 'jax' not in sys.modules")
    assert done.returncode == 0, done.stderr
    assert not any("torch" in path.read_text() for path in (ROOT / "reference").glob("*.py"))


def test_the_folder_under_its_bare_name_says_what_to_import_instead() -> None:
    done = run("import reference")
    assert done.returncode != 0
    assert "write `import sdi.reference`, not `import reference`" in done.stderr
