"""Public is what `sdi.__all__` and the folders' `__all__` name. It is there, hides no module, and docs use no other."""

from __future__ import annotations

import importlib
import pkgutil
import re
from types import ModuleType

import pytest
from paths import ROOMS, ROOT

import sdi

DOCS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.py")])


def packages() -> list[str]:
    """Every package under `sdi`, those of the rooms beside it among them."""
    found = ["sdi", *(f"sdi.{room}" for room in ROOMS)]
    for name in found:
        inner = pkgutil.iter_modules(importlib.import_module(name).__path__)
        found += [f"{name}.{m.name}" for m in inner if m.ispkg]
    return found


def hidden_modules(package: ModuleType) -> list[str]:
    """Submodules whose name in the package is something else: `import a.b` would not give the module b."""
    names = [m.name for m in pkgutil.iter_modules(package.__path__)]
    return [name for name in names if not isinstance(getattr(package, name, package), ModuleType)]


@pytest.mark.parametrize("name", packages())
def test_no_public_name_hides_a_module(name: str) -> None:
    assert hidden_modules(importlib.import_module(name)) == []


def test_a_hidden_module_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdi, "loop", sdi.Loop)
    assert hidden_modules(sdi) == ["loop"]


@pytest.mark.parametrize("name", packages())
def test_every_public_name_is_there_once_and_in_order(name: str) -> None:
    package = importlib.import_module(name)
    public = getattr(package, "__all__", [])
    assert all(hasattr(package, each) for each in public)
    assert len(set(public)) == len(public)


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_docs_use_public_names_only(path) -> None:
    text = path.read_text()
    asked = [("sdi", *words) for words in re.findall(r"(?<![\w./-])sdi\.(\w+)(?:\.(\w+))?", text)]
    for place, names in re.findall(r"^\s*from (sdi[\w.]*) import \(?([\w, \n]+?)\)?$", text, flags=re.M):
        asked += [(*place.split("."), name.strip()) for name in names.split(",") if name.strip()]
    wrong = [".".join(filter(None, words)) for words in asked if not is_public([w for w in words if w])]
    assert wrong == []


def is_public(words: list[str]) -> bool:
    """Whether each word is named by the `__all__` of what stands before it, or is a folder; attributes of both are."""
    at = importlib.import_module(words[0])
    for word in words[1:]:
        folder = f"{at.__name__}.{word}"
        if word in getattr(at, "__all__", ()):
            at = getattr(at, word)
        elif folder in packages() or folder == "sdi.testing.plugin":
            at = importlib.import_module(folder)
        else:
            return False
        if not isinstance(at, ModuleType):
            return True
    return True


@pytest.mark.parametrize(
    ("words", "public"),
    [("sdi.Loop", True), ("sdi.SketchMap.draw", True), ("sdi.scores.cross_mass", True), ("sdi.fast.featurize", True),
     ("sdi.loop.check_loop", False), ("sdi.sketch.hashing.bits", False), ("sdi.sketch.bits", True)],
)  # fmt: skip
def test_what_is_public_is_told_apart(words: str, public: bool) -> None:
    assert is_public(words.split(".")) is public
