"""The import graph: no cycles, no arrow from a folder to one that comes after it, no core module that names a room.

Every import statement counts, wherever it stands: at the top, in a function, under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from paths import ROOMS, ROOT

# Within each package, what may import what: a part may import from its own and from those before it. A name is a
# folder, or a module that stands beside the folders.
ORDER: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "sdi": (
        ("version", "errors", "arguments", "printable", "seal", "files", "loop", "units"),
        ("inputs",),
        ("lm",),
        ("sketch",),
        ("store",),
        ("backends", "ranks"),
        ("scores",),
        ("result",),
        ("retrieval",),
        ("report",),
        ("run",),
        ("planning",),
        ("retraining",),
        ("validate",),
        ("testing",),
        ("cli",),
        ("__main__",),
    ),
    "sdi.fast": (
        ("sketching",),
        ("guard",),
        ("find",),
        ("rows",),
        ("follow",),
        ("model", "weights", "ranks", "gather"),
        ("coverage_table",),
        ("featurizer",),
        ("exact",),
        ("training",),
    ),
    "sdi.bench": (("harness",), ("work", "fuzz", "mutants"), ("workers",), ("commands",), ("cli",)),
    "sdi.proofs_checks": (
        ("machinery",),
        ("gradients", "independence", "count_sketch"),
        ("tensor_sketch",),
        ("backends", "influence", "error_bars", "variants"),
        ("errata",),
    ),
}


def module_of(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = parts if parts[0] == "sdi" else ["sdi", *parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, Path]:
    return {module_of(path): path for room in ("sdi", *ROOMS) for path in sorted((ROOT / room).rglob("*.py"))}


def imports(name: str, source: str, package: bool, known: set[str]) -> set[str]:
    """The modules among `known` that a module's import statements name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            here = name.split(".") if package else name.split(".")[:-1]
            above = here[: len(here) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                found.add(whole if whole in known else base)
    return found & known


@cache
def graph() -> dict[str, set[str]]:
    paths = modules()
    return {
        name: imports(name, path.read_text(), path.name == "__init__.py", set(paths)) for name, path in paths.items()
    }


def find_cycle(arrows: Mapping[str, set[str]]) -> list[str]:
    """Some modules that import one another in a circle, or none."""
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return []
        for target in sorted(arrows.get(name, ())):
            if circle := walk(target, [*path, name]):
                return circle
        done.add(name)
        return []

    for name in sorted(arrows):
        if circle := walk(name, []):
            return circle
    return []


def rank(package: str, name: str) -> int | None:
    """The place of a module's part in the order of a package; None outside it, and for the package's own face."""
    if not name.startswith(package + "."):
        return None
    part = name.removeprefix(package + ".").split(".")[0]
    if package == "sdi" and part in ROOMS:
        return None
    places = [k for k, parts in enumerate(ORDER[package]) if part in parts]
    assert places, f"{name}: {part!r} has no place in the order of {package}; give it one in {Path(__file__).name}"
    return places[0]


def arrows_up(package: str, arrows: Mapping[str, set[str]]) -> list[str]:
    out = []
    for name, targets in arrows.items():
        for target in targets:
            one, other = rank(package, name), rank(package, target)
            if one is not None and other is not None and other > one:
                out.append(f"{name} -> {target}")
    return sorted(out)


def core_names_a_room(arrows: Mapping[str, set[str]]) -> list[str]:
    rooms = tuple(f"sdi.{room}" for room in ROOMS)
    inside = {name: targets for name, targets in arrows.items() if not name.startswith(rooms)}
    return sorted(f"{name} -> {t}" for name, targets in inside.items() for t in targets if t.startswith(rooms))


@pytest.mark.slow
def test_no_modules_import_one_another_in_a_circle() -> None:
    assert find_cycle(graph()) == []


@pytest.mark.parametrize("package", ORDER)
def test_no_folder_imports_from_one_that_comes_after_it(package: str) -> None:
    assert arrows_up(package, graph()) == []


def test_the_core_names_no_room_in_an_import() -> None:
    assert core_names_a_room(graph()) == []


def test_the_core_is_imported_from_its_face_by_commands_only() -> None:
    """`import sdi` within sdi/ would import everything before anything: a circle in all but name."""
    named = {name for name, targets in graph().items() if "sdi" in targets and name.startswith("sdi.")}
    assert {name for name in named if not name.startswith((*(f"sdi.{room}" for room in ROOMS), "sdi.cli"))} == set()


def test_a_circle_an_arrow_up_and_a_named_room_are_found() -> None:
    known = {"sdi", "sdi.errors", "sdi.store.lock", "sdi.cli.tables", "sdi.fast.featurizer"}
    late = imports("sdi.store.lock", "def f():\n    from sdi.cli import tables", False, known)
    typed = imports("sdi.errors", "if TYPE_CHECKING:\n    from .store.lock import locked", False, known)
    room = imports("sdi.cli.tables", "import sdi.fast.featurizer as f, sdi.errors", False, known)
    arrows = {"sdi.store.lock": late, "sdi.errors": typed, "sdi.cli.tables": room}
    assert late == {"sdi.cli.tables"}
    assert find_cycle(arrows) == ["sdi.cli.tables", "sdi.errors", "sdi.store.lock"]
    assert arrows_up("sdi", arrows) == ["sdi.errors -> sdi.store.lock", "sdi.store.lock -> sdi.cli.tables"]
    assert core_names_a_room(arrows) == ["sdi.cli.tables -> sdi.fast.featurizer"]
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
