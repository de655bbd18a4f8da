"""api_page: the public names of a package as a page, from their signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sdi", "sdi.lm", "sdi.scores", "sdi.result", "sdi.sketch", "sdi.validate", "sdi.testing")
PAGES = (
    "index",
    "guide",
    "steps",
    "error-bars",
    "reading",
    "language-models",
    "retraining",
    "objects",
    "store",
    "new-sketch",
)


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
        parts += [member(key, value) for key, value in vars(thing).items() if is_shown(key, value)]
    pages = examples_of(package, name)
    if pages:
        parts.append("Examples: " + ", ".join(f"[{page}](../{page}.md)" for page in pages) + ".")
    return "\n\n".join(filter(None, parts))


def is_shown(key: str, value: Any) -> bool:
    public = not key.startswith("_")
    return public and (callable(value) or isinstance(value, (property, classmethod)) or hasattr(value, "func"))


def member(key: str, value: Any) -> str:
    """A method or property of a class."""
    inner = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", None) or value
    text = described(inner)
    shown = f"`{key}`" if inner is not value and not isinstance(value, classmethod) else f"`{signature(key, inner)}`"
    return f"**{shown}**" + (f" — {text}" if text else "")


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
    text = inspect.getdoc(thing) or ""
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
    """The pages that use a name in a block of Python that the tests run."""
    pattern = rf"\b{re.escape(package.rpartition('.')[2])}\.{name}\b|^from {re.escape(package)} import .*\b{name}\b"
    return [page for page in PAGES if any(re.search(pattern, block, flags=re.M) for block in blocks_of(page))]


def blocks_of(page: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
