"""Makes a mutant live in this process: in the functions that exist already, or when its module is imported.

Replacing the code of living functions costs nothing and reaches every reference to them. It cannot reach what runs when
a module is imported (constants, defaults, decorators, class bodies): those mutants need a process in which nothing of
the library has been imported yet.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from functools import _lru_cache_wrapper
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

Place = tuple[str, str, int]  # path, name, first line
Change = tuple[Place, CodeType]
PARTS = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags", "co_argcount",
         "co_posonlyargcount", "co_kwonlyargcount", "co_exceptiontable")  # fmt: skip


def module_name(path: str) -> str:
    """The name a file is imported by.

    >>> module_name("reference/rotary.py"), module_name("sdi/sketch/bounds.py")
    ('sdi.reference.rotary', 'sdi.sketch.bounds')
    """
    name = path.removesuffix(".py").replace("/", ".")
    return name if name.startswith("sdi.") else f"sdi.{name}"


def living_functions(top: Path, paths: Sequence[str]) -> dict[Place, list[FunctionType]]:
    """All functions of these modules that exist in this process, by where they were written."""
    wanted = {str(top / path): path for path in paths}
    found: dict[Place, list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename in wanted:
            found.setdefault(place_of(wanted[one.__code__.co_filename], one.__code__), []).append(one)
    return found


def place_of(path: str, code: CodeType) -> Place:
    return path, code.co_name, code.co_firstlineno


def changed_functions(top: Path, path: str, source: str) -> list[Change] | None:
    """The functions whose code differs from the file's, outermost only; None if anything else differs."""
    name = str(top / path)
    old, new = (compile(text, name, "exec", dont_inherit=True) for text in ((top / path).read_text(), source))
    try:
        return list(_differences(path, old, new))
    except _NotInFunctions:
        return None


def replaceable(changes: Sequence[Change], living: dict[Place, list[FunctionType]]) -> bool:
    """Whether all of these functions live, and take their new code."""
    return all(
        place in living and all(one.__code__.co_freevars == code.co_freevars for one in living[place])
        for place, code in changes
    )


def replace(changes: Sequence[Change], living: dict[Place, list[FunctionType]]) -> None:
    """Give living functions their new code."""
    for place, code in changes:
        for function in living[place]:
            function.__code__ = code


def caches() -> list[Any]:
    """Every cache of a function of the library: to be emptied, for an import may have filled it."""
    found = (one for one in gc.get_objects() if type(one) is _lru_cache_wrapper)
    return [one for one in found if str(getattr(one, "__module__", "")).startswith("sdi.")]


def import_instead(top: Path, path: str, source: str) -> None:
    """Forget every module of the library; from now on, the module at `path` is imported with this source."""
    for name in [name for name in sys.modules if name == "sdi" or name.startswith("sdi.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Instead(module_name(path), top / path, source))


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, name: str, path: Path, source: str) -> None:
        self.name, self.path, self.source = name, path, source

    def find_spec(self, name: str, *rest: Any) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.source, str(self.path), "exec", dont_inherit=True), module.__dict__)


class _NotInFunctions(Exception):
    pass


def _differences(path: str, old: CodeType, new: CodeType) -> Iterator[Change]:
    if _same(old, new):
        return
    if old.co_flags & CO_OPTIMIZED:
        yield place_of(path, old), new
        return
    if not _same(old, new, deep=False):
        raise _NotInFunctions
    for a, b in zip(old.co_consts, new.co_consts, strict=True):
        if isinstance(a, CodeType):
            yield from _differences(path, a, b)


def _same(a: CodeType, b: CodeType, deep: bool = True) -> bool:
    if any(getattr(a, part, None) != getattr(b, part, None) for part in PARTS) or len(a.co_consts) != len(b.co_consts):
        return False
    for x, y in zip(a.co_consts, b.co_consts, strict=True):
        both = isinstance(x, CodeType) and isinstance(y, CodeType)
        if both and deep and not _same(x, y):
            return False
        if not both and repr(x) != repr(y):
            return False
    return True
