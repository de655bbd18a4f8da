"""described: a value as JSON for fingerprints, the same in every process: no memory address, no order of a set."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from sdi.inputs.batches import PLAIN, as_numpy

LEVELS = 6  # how deep nested values are followed; below, only the name of a value's class counts
MOST_BYTES = 1 << 22  # larger arrays are described by shape and dtype only
FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, partial)


def described(value: Any, function: Callable[[Any, int], str], levels: int = LEVELS, arrays: bool = True) -> Any:
    """A value as what `json.dumps` takes; None for Python modules and, without `arrays`, for arrays.

    function: called as function(f, levels) to describe a function. levels: how deep to follow nested values.
    """
    kind = type(value)
    if isinstance(value, PLAIN):
        return value if isinstance(value, (bool, int, str)) or value is None else repr(value)
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, ModuleType) or (not arrays and hasattr(value, "shape")):
        return None
    if isinstance(value, (type, Enum)):
        return str(getattr(value, "__qualname__", value))
    if levels <= 0:
        return kind.__qualname__
    if isinstance(value, FUNCTIONS):
        return function(value, levels - 1)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _array(value)
    held = _held(value)
    if held is None:
        return str(value) if kind.__module__ == "torch" else kind.__qualname__  # torch.float32, torch.device("cpu")

    def inner(part: Any) -> Any:
        return described(part, function, levels - 1, arrays)

    if isinstance(held, Mapping):
        words = {key if isinstance(key, str) else json.dumps(inner(key)): inner(part) for key, part in held.items()}
        return words if isinstance(value, Mapping) else {"class": kind.__qualname__, **words}
    parts = [inner(part) for part in held]
    return sorted(parts, key=json.dumps) if isinstance(value, (set, frozenset)) else parts


def is_library(f: Any) -> bool:
    """Whether a function is from sdi, the standard library or an installed package: then its name identifies it."""
    code = getattr(f, "__code__", None)
    top = (getattr(f, "__module__", None) or "").partition(".")[0]
    return code is None or top == "sdi" or top in sys.stdlib_module_names or "-packages" in code.co_filename


def _held(value: Any) -> Any:
    """The contents of a container, dataclass, config or plain object, as a mapping or sequence; else None."""
    if isinstance(value, (Mapping, list, tuple, set, frozenset)):
        return value
    if callable(getattr(value, "to_dict", None)):
        return json.loads(json.dumps(value.to_dict(), default=str))
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if hasattr(value, "named_modules") or not hasattr(value, "__dict__"):
        return None
    if type(value).__module__.partition(".")[0] in sys.stdlib_module_names and not isinstance(value, SimpleNamespace):
        return None  # a logger, a lock: their attributes differ between processes
    return {key: part for key, part in vars(value).items() if not key.startswith("_")}


def _array(x: Any) -> str:
    words = f"{x.dtype} {tuple(x.shape)}"
    if getattr(x, "nbytes", MOST_BYTES + 1) > MOST_BYTES:
        return words
    return f"{words} {hashlib.sha256(as_numpy(x).tobytes()).hexdigest()[:12]}"
