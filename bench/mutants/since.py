"""changed_since: functions whose code differs from a revision's, so that after a change only their mutants are run."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Sequence
from pathlib import Path


def changed_since(top: Path, revision: str, paths: Sequence[str]) -> set[tuple[str, str]]:
    """(path, function) of what is other code than in the revision; "module" for what stands outside of functions.

    Docstrings and comments do not count, nor that a function calls one that has changed. A file that is not Python
    has changed as a whole, under the name "kernel".
    """
    found = set()
    for path in paths:
        old, new = _of_revision(top, revision, path), (top / path).read_text()
        if path.endswith(".py"):
            before = _functions(old) if old is not None else {}
            found |= {(path, name) for name, code in _functions(new).items() if before.get(name) != code}
        elif old != new:
            found.add((path, "kernel"))
    return found


def _of_revision(top: Path, revision: str, path: str) -> str | None:
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{revision}^{{commit}}"], cwd=top, capture_output=True, check=False
    )
    if known.returncode:
        raise SystemExit(f"--since must be a revision of this checkout, got {revision!r}")
    shown = subprocess.run(["git", "show", f"{revision}:{path}"], cwd=top, capture_output=True, text=True, check=False)
    return None if shown.returncode else shown.stdout


def _functions(source: str) -> dict[str, str]:
    """The code of each function and class by dotted name, without docstrings and without what is defined within."""
    found: dict[str, str] = {}

    def look(node: ast.Module | ast.FunctionDef | ast.ClassDef, name: str, prefix: str) -> None:
        inner = [x for x in node.body if isinstance(x, ast.FunctionDef | ast.ClassDef)]
        first = node.body[0] if node.body else None
        says = first if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else None
        node.body = [x for x in node.body if x not in inner and x is not says]
        found[name] = ast.dump(node)
        for one in inner:
            look(one, prefix + one.name, f"{prefix}{one.name}.")

    look(ast.parse(source), "module", "")
    return found
