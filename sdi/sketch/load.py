"""load_sketch: from what a user names (a shipped name, an import path, a file, a class) to the class itself.

This is the only place that imports a user's sketch, and it is only asked for what the user has just named: an argument,
a config's key, a word on the command line. Opening a store or a result never comes here.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any

from sdi.errors import SketchMismatch, nearest
from sdi.inputs.settings import SketchSpec

SHIPPED = {
    "tensor": "sdi.sketch.shipped.count_and_tensor:TensorSketch",
    "gaussian": "sdi.sketch.shipped.gaussian:GaussianSketch",
    "rademacher": "sdi.sketch.shipped.rademacher:RademacherSketch",
    "kronecker": "sdi.sketch.shipped.kronecker:KroneckerSketch",
    "sparse": "sdi.sketch.shipped.sparse:SparseSketch",
    "hadamard": "sdi.sketch.shipped.hadamard:HadamardSketch",
    "mask": "sdi.sketch.shipped.mask:MaskSketch",
    "exact": "sdi.sketch.shipped.count_and_tensor:Keep",
}
SPARSE = re.compile(r"sparse-([1-9][0-9]*)")  # another number of non-zeros per column
MARK = "__sdi_sketch_file__"


def load_sketch(spec: str | type) -> type:
    """The sketch class that a spec names.

    spec: a shipped name ("tensor"), "package.module:Class", "path/to/file.py:Class", or a class, which is returned.
    Returns the class.

    >>> load_sketch("exact").__name__
    'Keep'
    """
    if isinstance(spec, type):
        return _checked(spec, spec.__qualname__)
    if not isinstance(spec, str):
        raise TypeError(f"sketch must be a name, an import path or a class, got {spec!r}")
    if is_shipped(spec):
        return _shipped(spec)
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise ValueError(
            f"sketch must be one of {tuple(SHIPPED)}, 'package.module:Class' or 'path/to/file.py:Class', "
            f"got {spec!r}{nearest(spec, SHIPPED)}"
        )
    module = _run_file(Path(place)) if place.endswith(".py") else _import(place, spec)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        known = [k for k, v in vars(module).items() if isinstance(v, type) and v.__module__.startswith(module.__name__)]
        raise ValueError(f"sketch {spec!r}: {place} has no class {name!r}{nearest(name, known)}")
    return _checked(found, spec)


def is_shipped(spec: Any) -> bool:
    """Whether a spec is the name of a shipped sketch, so that loading it runs no user's code."""
    return isinstance(spec, str) and (spec in SHIPPED or SPARSE.fullmatch(spec) is not None)


def sketch_text(spec: SketchSpec) -> Any:
    """A spec as text for files (for a mapping, one text per pattern), without folders, so that files can be moved.

    >>> sketch_text("tensor"), sketch_text("some/where/mine.py:Mine")
    ('tensor', 'mine.py:Mine')
    """
    if isinstance(spec, Mapping):
        return {pattern: sketch_text(part) for pattern, part in spec.items()}
    if not isinstance(spec, (str, type)):
        raise TypeError(f"sketch must be a name, an import path, a class, or a mapping to these, got {spec!r}")
    if isinstance(spec, str):
        place, colon, name = spec.rpartition(":")
        return f"{Path(place).name}{colon}{name}" if place.endswith(".py") else spec
    own = f"{spec.__module__}:{spec.__qualname__}"
    for text, path in SHIPPED.items():
        if path == own:
            return text
    if "spec" in vars(spec) and is_shipped(vars(spec)["spec"]):
        return vars(spec)["spec"]
    file = getattr(sys.modules.get(spec.__module__), MARK, None)
    return own if file is None else f"{Path(file).name}:{spec.__qualname__}"


def sketch_for(spec: SketchSpec, parameter: str) -> str | type:
    """The spec for one parameter: if `spec` is a mapping, the value of the first pattern that matches its name."""
    if not isinstance(spec, Mapping):
        return spec
    for pattern, part in spec.items():
        if fnmatchcase(parameter, pattern):
            return part
    raise SketchMismatch(
        f"no pattern of sketch matches parameter {parameter!r}; it has {list(spec)}: end with '*' for all others"
    )


def _shipped(name: str) -> type:
    found = SPARSE.fullmatch(name)
    module, _, cls = SHIPPED["sparse" if found else name].partition(":")
    made: Any = getattr(importlib.import_module(module), cls)
    return made.with_nonzeros(int(found[1])) if found else made


def _import(module: str, spec: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
            raise  # the module is there; something that it imports is not
        raise ValueError(
            f"sketch {spec!r}: there is no module {error.name!r} on the import path; install it, or name the file: "
            f"path/to/{module.rpartition('.')[2]}.py:Class"
        ) from None


def _run_file(path: Path) -> ModuleType:
    """Run a file as a module and remember it; it is run again only if the file was modified since."""
    path = path.expanduser().resolve()
    if not path.is_file():
        raise ValueError(f"sketch must be in a Python file, got {path}, which does not exist")
    stamp = path.stat().st_mtime_ns
    known = sys.modules.get(name := f"sdi_sketch_{path.stem}")
    if known is not None and getattr(known, MARK, None) == str(path) and known.__dict__.get("__sdi_stamp__") == stamp:
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__.update({MARK: str(path), "__sdi_stamp__": stamp})
    sys.modules[name] = module  # dataclasses and pickle look there
    sys.path.insert(0, str(path.parent))  # the file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


NEEDED = ("draw", "shape", "size", "tables", "apply", "apply_outer", "variance_factor", "nbytes")


def _checked(cls: type, spec: str) -> type:
    """The class; TypeError if it has no `draw` or lacks abstract methods. What it draws is checked in `draw_one`."""
    if not callable(getattr(cls, "draw", None)):
        raise TypeError(f"sketch {spec!r} has no classmethod draw(shape, m, *, seed, name), so it is no sketch class")
    left = sorted(getattr(cls, "__abstractmethods__", ()))
    if left:
        raise TypeError(f"sketch {spec!r} lacks {', '.join(left)}, which LinearSketch asks for")
    return cls
