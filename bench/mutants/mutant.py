"""Mutants: modules of mathematics with one small change each, written by mutmut's operators."""

from __future__ import annotations

import ast
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

SHORT = 20  # letters

MODULES = (
    "sdi/sketch/hashing.py",
    "sdi/sketch/bounds.py",
    "sdi/sketch/variance_factor.py",
    "sdi/sketch/estimate_variance.py",
    "sdi/sketch/protocol.py",
    "sdi/scores/*.py",
    "sdi/sketch/shipped/*.py",
    "reference/*.py",
    "fast/sketching/*.py",
    "sdi/sketch/draw_one.py",
    "sdi/sketch/sketch_map.py",
)


@dataclass(frozen=True)
class Mutant:
    """A module (path from the checkout's top), with `source` in place of its own; `old` became `new` in `function`."""

    path: str
    function: str
    line: int
    old: str
    new: str
    source: str

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.path}\0{self.source}".encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """What a list of reasons calls it: the same for as long as the line is the same. A short text occurs often, so
        it is given with its line."""
        change = f"{self.path} {self.function}: {self.old} -> {self.new}"
        return change if len(self.old) > SHORT else f"{change} in {self.source.splitlines()[self.line - 1].strip()}"


def modules(top: Path) -> list[str]:
    """The files that are mutated, as paths from the checkout's top; `__init__.py` only names what is public."""
    found = (path for pattern in MODULES for path in sorted(top.glob(pattern)) if path.name != "__init__.py")
    return [str(path.relative_to(top)) for path in found]


def mutants_of(top: Path, path: str, cache: Path) -> list[Mutant]:
    """Every mutant of one module. cache: a folder that keeps them, by the module's content."""
    source = (top / path).read_text()
    kept = cache / (hashlib.sha256(f"1\0{path}\0{source}".encode()).hexdigest()[:16] + ".json")
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(".part")
        part.write_text(json.dumps([asdict(mutant) for mutant in _generate(path, source)]))
        part.rename(kept)
    return [Mutant(**mutant) for mutant in json.loads(kept.read_text())]


def _generate(path: str, source: str) -> list[Mutant]:
    import libcst as cst
    from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper
    from mutmut.mutation.file_mutation import MutationVisitor, deep_replace
    from mutmut.mutation.mutators import mutation_operators
    from mutmut.mutation.pragma_handling import IgnoredCode

    class Everywhere(MutationVisitor):
        """Decorated functions, too, which mutmut leaves alone for its trampolines; not the words of errors."""

        def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
            if isinstance(node, cst.Raise):
                return True
            if isinstance(node, cst.FunctionDef) and node.decorators:
                return False
            return bool(super()._skip_node_and_children(node))

    wrapper = MetadataWrapper(cst.parse_module(source))
    visitor = Everywhere(mutation_operators, IgnoredCode(set(), set(), set()))
    wrapper.visit(visitor)
    places = wrapper.resolve(ByteSpanPositionProvider)
    functions, raw = _functions(source), source.encode()
    found, seen = [], {"".join(source.split())}
    for mutation in visitor.mutations:
        old, new = (wrapper.module.code_for_node(n) for n in (mutation.original_node, mutation.mutated_node))
        place = places.get(mutation.original_node)
        if place is not None and raw[place.start : place.start + place.length] == old.encode():  # ten times faster
            text = (raw[: place.start] + new.encode() + raw[place.start + place.length :]).decode()
        else:
            changed = deep_replace(wrapper.module, mutation.original_node, mutation.mutated_node)
            assert isinstance(changed, cst.Module)
            text = changed.code
        bare = "".join(text.split())
        if bare in seen or not _is_code(text):  # as another, or as the original
            continue
        seen.add(bare)
        line = _first_difference(source, text)
        names = [name for first, last, name in functions if first <= line <= last]
        found.append(Mutant(path, names[-1] if names else "module", line, _short(old), _short(new), text))
    return found


def _is_code(text: str) -> bool:
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _functions(source: str) -> list[tuple[int, int, str]]:
    """First line, last line and dotted name of every function and class, outer ones first."""
    found: list[tuple[int, int, str]] = []

    def look(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.append((node.lineno, node.end_lineno or node.lineno, prefix + node.name))
                look(node.body, f"{prefix}{node.name}.")

    look(ast.parse(source).body, "")
    return found


def _first_difference(old: str, new: str) -> int:
    pairs = enumerate(zip(old.splitlines(), new.splitlines(), strict=False), start=1)
    return next((number for number, (a, b) in pairs if a != b), 1)


def _short(code: str) -> str:
    return " ".join(code.split())
