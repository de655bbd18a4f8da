"""Script: the user's Python file that defines model, loss and data as functions. Loading it runs it."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

FUNCTIONS = ("model", "loss", "train", "query")
MARK = "__sdi_script__"


@dataclass(frozen=True)
class Script:
    """The four functions of a script, and the one that shows an example in a report, if it has one."""

    model: Callable[[], Any]
    loss: Callable[[Any, Any], Any]
    train: Callable[[], Iterable[Any]]
    query: Callable[[], Iterable[Any]]
    show: Callable[[Any], Any] | None = None


def load_script(path: Path) -> Script:
    """Run the file and return its functions model, loss, train and query; an error names those that are missing.

    A function `show` is returned as well, if there is one.
    """
    if not path.is_file():
        raise ValueError(f"script {path} does not exist")
    module = _run(path)
    missing = [f"{name}()" for name in FUNCTIONS if not callable(getattr(module, name, None))]
    if missing:
        raise ValueError(
            f"script {path} does not define {', '.join(missing)}; it must define model(), loss(model, batch), "
            "train() and query()"
        )
    show = getattr(module, "show", None)
    return Script(module.model, module.loss, module.train, module.query, show if callable(show) else None)


def load_functions(path: Path, names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Run the file and return its functions of these names; an error names those that are missing."""
    if not path.is_file():
        raise ValueError(f"script {path} does not exist")
    module = _run(path)
    missing = [f"{name}()" for name in names if not callable(getattr(module, name, None))]
    if missing:
        wanted = ", ".join(f"{name}()" for name in names)
        raise ValueError(f"script {path} does not define {', '.join(missing)}; it must define {wanted}")
    return {name: getattr(module, name) for name in names}


def where_in_script(error: BaseException, script: Path | None = None) -> str | None:
    """File, line and function in the user's code where an error was raised; None if sdi itself raised it.

    The user's code is the script and whatever it imports that is not an installed package.
    """
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    place, ours = None, False
    for frame, line in traceback.walk_tb(error.__traceback__):
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        top = _top_package(frame.f_globals)
        ours = top == "sdi"
        installed = ours or top in sys.stdlib_module_names or "-packages" in file or file.startswith("<")
        if frame.f_globals.get(MARK) or file == str(script) or not installed:
            place = f"{file}, line {line}" + ("" if name == "<module>" else f", in {name}()")
    return None if ours else place


def _top_package(scope: Mapping[str, Any]) -> str:
    """The top-level package that a module's globals belong to; for `python -m sdi`, "sdi", not "__main__"."""
    return str(scope.get("__package__") or scope.get("__name__", "")).partition(".")[0]


def _run(path: Path) -> ModuleType:
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # the script may import its neighbours
    spec = importlib.util.spec_from_file_location(_name(path), path)
    if spec is None or spec.loader is None:
        raise ValueError(f"script must be a Python file, got {path}")
    module = importlib.util.module_from_spec(spec)
    module.__dict__[MARK] = True
    sys.modules[spec.name] = module  # so that a DataLoader's workers can unpickle its classes
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing is written beside the user's files
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def _name(path: Path) -> str:
    """The name to import the script under: the file's stem, so that child processes find it, unless that is taken."""
    other = sys.modules.get(path.stem)
    taken = path.stem in sys.stdlib_module_names or (other is not None and not hasattr(other, MARK))
    return f"sdi_script_{path.stem}" if taken else path.stem
