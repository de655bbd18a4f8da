"""Makes a mutant live in this process: in the functions that exist already, or when its module is imported.

Replacing the code of living functions costs nothing and reaches every reference to them. Of what runs when a module is
imported, defaults and plain values can be put in place, too; other mutants need a process in which nothing of the
library has been imported yet.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import _lru_cache_wrapper, cache
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

Place = tuple[str, str, int]  # path, name, first line
Change = tuple[Place, CodeType]
PLAIN = (int, float, str, tuple, dict, frozenset, type(None))
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
    try:
        return list(_differences(path, _original(top / path), compile(source, top / path, "exec", dont_inherit=True)))
    except _NotInFunctions:
        return None


@cache
def _original(file: Path) -> CodeType:
    return compile(file.read_text(), file, "exec", dont_inherit=True)


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


def transplant(top: Path, path: str, source: str) -> bool:
    """Run a module's new source aside; give defaults and plain values that differ to the functions, classes and modules
    that live. False if something else may differ: then a fresh import must tell. Raises what the new source raises."""
    living = sys.modules[module_name(path)]
    aside = ModuleType(living.__name__)
    aside.__dict__.update(__package__=living.__package__, __file__=living.__file__, __spec__=living.__spec__)
    exec(compile(source, top / path, "exec", dont_inherit=True), aside.__dict__)
    return _give(vars(living), vars(aside), lambda name, value: _everywhere(living, name, value))


def _everywhere(living: ModuleType, name: str, value: object) -> None:
    """Set a module's value, in all modules that imported it, too."""
    old = vars(living)[name]
    named = [module for key, module in list(sys.modules.items()) if key.startswith("sdi.") and module is not None]
    for module in named if not isinstance(old, type) else [living]:
        if vars(module).get(name, module) is old:
            setattr(module, name, value)


def _give(old: Mapping[str, Any], new: Mapping[str, Any], put: Callable[[str, Any], None]) -> bool:
    """`put` gets every plain value that differs; functions, those of classes too, get their defaults."""
    for name, fresh in new.items():
        if name.startswith("__") and name != "__init__":
            continue
        if name not in old:
            return False
        before = old[name]
        a, b = (_function(one) for one in (before, fresh))
        if a is not None and b is not None:
            a.__defaults__, a.__kwdefaults__ = b.__defaults__, b.__kwdefaults__
        elif isinstance(before, type) and isinstance(fresh, type) and before.__module__ == fresh.__module__:
            mine = fresh is not before
            if mine and not _give(vars(before), vars(fresh), lambda key, value, of=before: setattr(of, key, value)):  # type: ignore[misc]
                return False
        elif isinstance(fresh, PLAIN) and repr(before) != repr(fresh):
            put(name, fresh)
        elif type(before) is not type(fresh):
            return False
    return True


def _function(one: object) -> FunctionType | None:
    one = getattr(one, "fget", None) or getattr(one, "__wrapped__", None) or getattr(one, "__func__", None) or one
    return one if type(one) is FunctionType else None


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
