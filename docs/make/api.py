"""api_page: the public names of a package as a page, from their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sdi", "sdi.lm", "sdi.scores", "sdi.result", "sdi.sketch", "sdi.validate", "sdi.testing")
PAGES = (
    "index",
    "cluster",
    "guide",
    "steps",
    "error-bars",
    "reading",
    "language-models",
    "retraining",
    "objects",
    "retrieval",
    "store",
    "new-sketch",
)


@cache
def api_page(package: str) -> str:
    """Markdown: a section for each name of the package's `__all__`, classes with their methods and properties."""
    module = importlib.import_module(package)
    words = inspect.getdoc(module) or ""
    return "\n\n".join([f"# {package}", words, *(entry(package, name) for name in module.__all__)])


def entry(package: str, name: str) -> str:
    """One public name: its signature, docstring, members, and the pages whose running blocks use it."""
    thing = getattr(importlib.import_module(package), name)
    title = f"## {package}.{name}"
    if not callable(thing):
        return f"{title}\n\n`{thing!r}`" if isinstance(thing, (str, int, float)) else f"{title}\n\n{described(thing)}"
    parts = [title, f"```python\n{signature(name, thing)}\n```", described(thing)]
    if inspect.isclass(thing):
        fields = [f"- `{name}`: {words}" for name, words in fields_of(thing).items() if words]
        parts += ["\n".join(fields)] if fields else []
        parts += [member(thing, key, value) for key, value in vars(thing).items() if is_shown(key, value)]
    pages = examples_of(package, name)
    if pages:
        parts.append("Examples: " + ", ".join(f"[{page}](../{page}.md)" for page in pages) + ".")
    return "\n\n".join(filter(None, parts))


def is_shown(key: str, value: Any) -> bool:
    public = not key.startswith("_")
    return public and (callable(value) or isinstance(value, (property, classmethod)) or hasattr(value, "func"))


def member(owner: type, key: str, value: Any) -> str:
    """A method or property of a class."""
    inner = inner_of(value)
    text = described(inner) or next(filter(None, (described(inner_of(vars(c).get(key))) for c in owner.__mro__)), "")
    shown = f"`{key}`" if inner is not value and not isinstance(value, classmethod) else f"`{signature(key, inner)}`"
    return f"**{shown}**" + (f" — {text}" if text else "")


def inner_of(value: Any) -> Any:
    """The function of a property, a cached property or a classmethod; another value as it is."""
    return getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", None) or value


def fields_of(owner: type) -> dict[str, str]:
    """The fields of a dataclass or named tuple, with their shapes and the comments that stand behind them."""
    named = (
        [f.name for f in dataclasses.fields(owner)]
        if dataclasses.is_dataclass(owner)
        else getattr(owner, "_fields", ())
    )
    lines = [
        line for c in owner.__mro__ if c.__module__.startswith("sdi.") for line in inspect.getsource(c).splitlines()
    ]
    found = {}
    for name in named:
        line = next((line for line in lines if re.match(rf"    {name}: ", line)), "")
        shapes, comment = " or ".join(shapes_of(line)), line.partition("  # ")[2]
        found[name] = "; ".join(filter(None, (shapes, comment)))
    return found


def shapes_of(annotation: Any) -> list[str]:
    """The shapes of the arrays in an annotation.

    >>> shapes_of('Float[Array, "n q tau"] | Int[Array, "n"] | Float[Array, "..."]')
    ['(n, q, tau)', '(n,)', '(...)']
    """
    found = [axes.split() for axes in re.findall(r"\w+\[[\w.]+, ['\"]([^'\"]+)['\"]\]", str(annotation))]
    return [f"({', '.join(axes)}{',' if len(axes) == 1 and axes != ['...'] else ''})" for axes in found]


def signature(name: str, thing: Any) -> str:
    """Name and arguments with their defaults, without types, which the docstring says in words."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    kept = [p.replace(annotation=p.empty) for p in found.parameters.values() if p.name not in ("self", "cls")]
    return name + re.sub(r"<function (\w+)[^>]*>|<class '([\w.]+)'>", r"\1\2", str(inspect.Signature(kept)))


def described(thing: Any) -> str:
    """A docstring as Markdown: what it says of arguments as a list, its examples as code."""
    text = "" if thing is None else inspect.getdoc(thing) or ""
    if inspect.isclass(thing) and text.startswith(f"{thing.__name__}("):  # a dataclass or tuple without its own
        return ""
    prose, mark, example = text.partition(">>>")
    try:
        names = set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        names = set()
    parts = [listed(part, names) for part in prose.rstrip().split("\n\n")]
    if mark:
        parts.append(f"```python\n{mark}{example.rstrip()}\n```")
    return "\n\n".join(parts)


def listed(paragraph: str, names: set[str]) -> str:
    """A paragraph; if it describes arguments ("k: how many. query: its id."), as a list of them."""
    joined = " ".join(paragraph.split())
    marks = [m for m in re.finditer(r"(?:^|(?<=[.;] ))((?:\w+, )*\w+): ", joined) if set(m[1].split(", ")) & names]
    if not marks or marks[0].start() > 0:
        return paragraph
    ends = [m.start() for m in marks[1:]] + [len(joined)]
    return "\n".join(f"- `{m[1]}`: {joined[m.end() : end].strip()}" for m, end in zip(marks, ends, strict=True))


def examples_of(package: str, name: str) -> list[str]:
    """The pages that use a name in a block of Python that the tests run; or the same thing, as a name of `sdi`."""
    packages = [package, *({"sdi"} - {package} if shared(package, name) else ())]
    taken = "|".join(rf"^from {re.escape(p)} import (?:\([^)]*|.*)\b{name}\b" for p in packages)
    used = "|".join(rf"\b{re.escape(p.rpartition('.')[2])}\.{name}\b" for p in packages)
    return [page for page in PAGES if any(re.search(f"{used}|{taken}", b, flags=re.M) for b in blocks_of(page))]


def shared(package: str, name: str) -> bool:
    """Whether `sdi` has the very same thing under this name."""
    here, face = (getattr(importlib.import_module(p), name, None) for p in (package, "sdi"))
    return here is not None and here is face


@cache
def blocks_of(page: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
