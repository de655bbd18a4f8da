"""Fingerprints of a model and a loss: what a store compares, besides weights and data, before it is used again.

They see a model's structure, its attributes and what stands in them (`describe_value`); and a loss's own code with its
constants, defaults and closure, the module's constants and functions that it reads, and what a method reads of its
object. The code of a model's forward, and of the libraries that a loss calls, they do not see; nor a docstring.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from inspect import getattr_static
from types import FunctionType, MethodType, ModuleType
from typing import Any

from sdi.inputs.batches import PLAIN
from sdi.inputs.code_text import ATTRIBUTES, GLOBALS, code_text, names_read
from sdi.inputs.describe_value import LEVELS, described, is_library
from sdi.loop import Loop

MOST_SHOWN = 60  # letters of a value that a message shows as it is
_being_described: set[int] = set()


def model_fingerprint(model: Any) -> dict[str, Any]:
    """The model's class name and plain attributes, and a digest of its modules' names, classes and attributes."""
    if id(model) in _being_described:  # a wrapped forward leads back to its model
        return {"class": type(model).__qualname__, "parts": "itself"}
    _being_described.add(id(model))
    try:
        modules = model.named_modules() if hasattr(model, "named_modules") else ()
        parts = [f"{name} {type(m).__qualname__} {json.dumps(held(vars(m)), sort_keys=True)}" for name, m in modules]
        if hasattr(model, "named_parameters"):
            parts += [f"{name} {p.dtype}" for name, p in model.named_parameters()]
        return {
            "class": type(model).__qualname__,
            "parts": _digest("\n".join(parts)),
            **held(getattr(model, "__dict__", {})),
        }
    finally:
        _being_described.discard(id(model))


def loop_names(model: Any, loop: Loop) -> dict[str, Any]:
    """A Loop as a dict for JSON, with modules replaced by their names in the model."""
    known = {id(m): name for name, m in model.named_modules()} if hasattr(model, "named_modules") else {}

    def name(entry: Any) -> Any:
        return entry if entry is None or isinstance(entry, str) else known.get(id(entry), type(entry).__qualname__)

    steps = [name(entry) for entry in loop.steps]
    body, step = [name(entry) for entry in loop.body], steps if len(steps) > 1 else steps[0]
    names_of = {"body": body, "step": step, "end": name(loop.end)}
    names_of |= {} if loop.calls == "one" else {"calls": loop.calls}
    return names_of if loop.inner is None else {**names_of, "cycle": name(loop.cycle), "inner": loop.inner}


def loss_fingerprint(loss: Any) -> str:
    """A loss's name and a digest of its code, constants, defaults, closure, and the globals and attributes it reads."""
    name = getattr(loss, "__qualname__", type(loss).__qualname__)
    return f"{name} {_digest(_function(loss, LEVELS))}"


def loss_parts(loss: Any) -> dict[str, str]:
    """What `loss_fingerprint` looks at, by name: short values as they are, others as a digest."""
    if isinstance(loss, partial):
        given: dict[Any, Any] = {**dict(enumerate(loss.args, 1)), **loss.keywords}
        return loss_parts(loss.func) | {f"argument {name}": _shown(value) for name, value in given.items()}
    method = loss if hasattr(loss, "__code__") else getattr(type(loss), "forward", type(loss).__call__)
    code = getattr(method, "__code__", None)
    if code is None:
        return {}
    defaults, cells = getattr(method, "__defaults__", None) or (), getattr(method, "__closure__", None) or ()
    arguments = code.co_varnames[: code.co_argcount][-len(defaults) :] if defaults else ()
    scope = getattr(method, "__globals__", {})
    owner = getattr(loss, "__self__", None) if isinstance(loss, MethodType) else None if method is loss else loss
    named: dict[str, Any] = {f"default of {name}": value for name, value in zip(arguments, defaults, strict=True)}
    named |= {f"default of {name}": value for name, value in (getattr(method, "__kwdefaults__", None) or {}).items()}
    named |= {f"closure {n}": cell.cell_contents for n, cell in zip(code.co_freevars, cells, strict=True)}
    named |= {f"global {name}": scope[name] for name in names_read(code, GLOBALS) if name in scope}
    named |= {f"attribute {name}": value for name, value in plain(getattr(loss, "__dict__", {})).items()}
    named |= {f"attribute {name}": value for name, value in (_read_of(owner, code, LEVELS) if owner else {}).items()}
    shown = {name: _shown(value) for name, value in named.items() if not isinstance(value, ModuleType)}
    return {"code": _digest(code_text(code)), **shown}


def _shown(value: Any) -> str:
    words = described(value, _nested, LEVELS - 1)
    text = (
        repr(value)
        if isinstance(value, PLAIN)
        else words
        if isinstance(words, str)
        else json.dumps(words, sort_keys=True)
    )
    return text if len(text) <= MOST_SHOWN else _digest(text)


def class_fingerprint(cls: type) -> str:
    """A digest of the code and plain attributes of a class and of its bases, except those of this library."""
    parts = []
    for base in cls.__mro__:
        if base is not object and base.__module__.split(".")[0] not in ("sdi", "abc", "typing"):
            functions = {k: getattr(f, "__func__", getattr(f, "fget", f)) for k, f in sorted(vars(base).items())}
            parts += [f"{k} {_function(f, LEVELS)}" for k, f in functions.items() if hasattr(f, "__code__")]
            parts.append(json.dumps(plain(vars(base)), sort_keys=True))
    return _digest("\n".join(parts))


def plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The public attributes that are numbers, strings, lists of these, or have a `to_dict`, as JSON values."""
    out: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith("_") or key == "training":
            continue
        if isinstance(value, PLAIN):
            out[key] = value if isinstance(value, (bool, int, str)) or value is None else repr(value)
        elif isinstance(value, (list, tuple)) and all(isinstance(v, PLAIN) for v in value):
            out[key] = repr(value)
        elif callable(getattr(value, "to_dict", None)) and not isinstance(value, type):
            out[key] = json.loads(json.dumps(value.to_dict(), default=str))
    return out


def held(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """`plain` attributes, and the other public ones (dicts, objects, functions) described; arrays are left out."""
    out = plain(attributes)
    for key, value in attributes.items():
        if key not in out and not key.startswith("_") and key != "training":
            words = described(value, _nested, arrays=False)
            out.update({} if words is None else {key: words})
    return out


def _nested(f: Any, levels: int) -> str:
    """A function found inside another value: its name, and, unless it is installed code, a digest of its code."""
    if isinstance(f, partial):
        return _digest(_function(f, levels))
    name = getattr(f, "__qualname__", type(f).__qualname__)
    return f"{f.__module__}.{name}" if is_library(f) else f"{name} {_digest(_function(f, levels))}"


def _function(f: Any, levels: int) -> str:
    if isinstance(f, partial):
        return f"{_function(f.func, levels)} {_values(f.args, levels)} {_words(f.keywords, levels)}"
    method = f if hasattr(f, "__code__") else getattr(type(f), "forward", type(f).__call__)
    code = getattr(method, "__code__", None)
    cells = [cell.cell_contents for cell in getattr(method, "__closure__", None) or ()]
    parts = [_values(getattr(method, "__defaults__", None) or (), levels), _values(cells, levels)]
    own = json.dumps(plain(getattr(f, "__dict__", {})), sort_keys=True)
    text = f"{'' if code is None else code_text(code)} {parts} {own}"
    read = {"keywords": getattr(method, "__kwdefaults__", None)}
    if code is not None and levels > 0:
        scope = getattr(method, "__globals__", {})
        read["globals"] = {name: scope[name] for name in names_read(code, GLOBALS) if name in scope}
        owner = getattr(f, "__self__", None) if isinstance(f, MethodType) else None if method is f else f
        if owner is not None:
            text += json.dumps(_read_of(owner, code, levels), sort_keys=True)
    return text + "".join(_words(part, levels) for part in read.values() if part)


def _read_of(owner: Any, code: Any, levels: int) -> dict[str, Any]:
    """The attributes of its object that a method reads, and those read by other methods that it calls, described."""
    out: dict[str, Any] = {}
    codes = [code]
    if hasattr(owner, "named_modules"):
        out["parts"] = model_fingerprint(owner)["parts"]
    while codes:
        for name in names_read(codes.pop(), ATTRIBUTES):
            value = getattr_static(owner, name, None)
            method = getattr(value, "fget", getattr(value, "__func__", value))
            if name in out or value is None:
                continue
            if isinstance(method, FunctionType):
                out[name] = code_text(method.__code__)
                codes.append(method.__code__)
            else:
                out[name] = described(value, _nested, levels - 1)
    return out


def _words(values: Mapping[str, Any], levels: int) -> str:
    words = {key: described(value, _nested, levels - 1) for key, value in values.items()}
    return json.dumps({key: word for key, word in words.items() if word is not None}, sort_keys=True)


def _values(values: Any, levels: int) -> str:
    return repr([v if isinstance(v, PLAIN) else described(v, _nested, levels - 1) for v in values])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
