"""Settings: what a run's numbers, and how they are made, depend on besides its model and data. Checked once, here.

`sdi.attribute` takes them as keywords, a TOML config as keys, runs as one object. A new setting is a field of
`Settings` with its rule, a line in its docstring, and a line in `SettingsArguments`, which tells type checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from inspect import Parameter, cleandoc, signature
from typing import Any, Literal, TypedDict, TypeVar, cast, get_args

from sdi.arguments import at_least_one, check_budget, not_negative, one_of, whole
from sdi.errors import nearest

Mode = Literal["query", "train", "matrix", "tracin"]
BackendName = Literal["fast", "exact", "reference"]
Family = Literal["table", "polynomial"]
Dtype = Literal["float32", "float16", "float64"]
Audit = Literal["first", "every", "off"]
Memory = Literal["auto", "hooks", "recompute"]
Widths = int | Mapping[str, int] | None  # one for all parameters, one for each, or none: gradients stay whole
SketchSpec = str | type | Mapping[str, str | type]

MODES, BACKEND_NAMES, FAMILIES = get_args(Mode), get_args(BackendName), get_args(Family)
DTYPES, AUDITS, MEMORIES = get_args(Dtype), get_args(Audit), get_args(Memory)
CHOICES: dict[str, tuple[str, ...]] = {
    "mode": MODES,
    "backend": BACKEND_NAMES,
    "family": FAMILIES,
    "dtype": DTYPES,
    "audit": AUDITS,
    "memory": MEMORIES,
}


@dataclass(frozen=True)
class Settings:
    """All settings of a run, checked.

    m: numbers kept for each parameter tensor; a mapping gives one for each (`sdi.spread`); None keeps gradients whole,
        without error.
    spread: give parameters with large gradients more of the bytes of m, and others less, by a look at a few examples.
    seed: of the sketches.
    family: their randomness: "table", fully random; "polynomial", exactly as independent as the theorems ask.
    sketch: what gradients are sketched with: a shipped name, an import path, a class, or a mapping from patterns of
        parameter names to these (`SketchMap.draw`).
    mode: whose steps are resolved: "query"; "train", the training example's; "matrix", both; "tracin", none.
    backend: "fast"; "exact", without sketches or error, and without a store; "reference", dense NumPy for
        `sdi.reference` models.
    dtype: of the numbers in the store: "float32", "float16" or "float64".
    repeats: average over so many independent sketches and measure the error from their spread.
    shard: examples in a file of the store: what a killed run may lose.
    audit: "first" checks the first batch of each side against autograd and some of its examples alone, and of later
        batches one example alone in every batch of a new size or number of steps, and for at most 3% of all examples;
        "every" checks all batches like the first; "off" none.
    memory: "hooks" keeps the activations of the whole loop; "recompute" only the inputs of its units; "auto" takes
        hooks as long as they fit into the budget.
    budget: bytes that a pass may take; by default half of what is free.
    """

    m: Widths = 2048
    spread: bool = False
    seed: int = 0
    family: Family = "table"
    sketch: SketchSpec = "tensor"
    mode: Mode = "query"
    backend: BackendName = "fast"
    dtype: Dtype = "float32"
    repeats: int = 1
    shard: int = 256
    audit: Audit = "first"
    memory: Memory = "auto"
    budget: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.m, Mapping):
            self._set("m", {name: _width(f"m of {name!r}", width) for name, width in self.m.items()})
        elif self.m is not None:
            self._set("m", _width("m", self.m))
        for name in ("seed", "repeats", "shard"):
            self._set(name, whole(name, getattr(self, name)))
        if self.budget is not None:
            self._set("budget", whole("budget", self.budget))
        for name, choices in CHOICES.items():
            one_of(name, getattr(self, name), choices)
        check_budget(self.budget)
        not_negative("seed", self.seed)
        at_least_one("repeats", self.repeats)
        at_least_one("shard", self.shard)
        parts = tuple(self.sketch.values()) if isinstance(self.sketch, Mapping) else (self.sketch,)
        if not parts or not all(isinstance(part, type) or (isinstance(part, str) and part) for part in parts):
            raise TypeError(
                "sketch must be a name, an import path, a class, or a mapping from patterns of parameter names to "
                f"these, got {self.sketch!r}"
            )
        if not isinstance(self.spread, bool):
            raise TypeError(f"spread must be true or false, got {self.spread!r}")
        if self.spread and (isinstance(self.m, Mapping) or self.m is None):
            raise ValueError(f"m must be one width where spread divides its bytes, got {self.m!r}")
        if self.spread and self.backend == "exact":
            raise ValueError("spread must be false with backend 'exact', which takes no sketches")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def pass_options(self) -> dict[str, Any]:
        """What a backend's Featurizer takes."""
        return {"audit": self.audit, "memory": self.memory, "budget": self.budget}

    @property
    def keeps_steps(self) -> dict[str, bool]:
        """Which side's features keep their steps."""
        return {"train": self.mode in ("train", "matrix"), "query": self.mode in ("query", "matrix")}


NAMES = tuple(field.name for field in fields(Settings))


class SettingsArguments(TypedDict, total=False):
    """The fields of `Settings` as keywords."""

    m: Widths
    spread: bool
    seed: int
    family: Family
    sketch: SketchSpec
    mode: Mode
    backend: BackendName
    dtype: Dtype
    repeats: int
    shard: int
    audit: Audit
    memory: Memory
    budget: int | None


def _width(name: str, value: Any) -> int:
    width = whole(name, value)
    at_least_one(name, width)
    return width


def changed(settings: Settings | None, changes: SettingsArguments, verb: str) -> Settings:
    """Settings with some of them changed; a keyword that is none of them is refused as Python would."""
    for name in changes:
        if name not in NAMES:
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}{nearest(name, NAMES)}")
    return Settings(**{**({} if settings is None else vars(settings)), **changes})


Verb = TypeVar("Verb", bound=Callable[..., Any])


def takes_settings(verb: Verb) -> Verb:
    """Show the settings that a function takes as keywords in its signature and its docstring, each with its default."""
    shown = signature(verb)
    own = [p for p in shown.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    more = [Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type) for f in fields(Settings)]
    described = cleandoc(cast(str, Settings.__doc__)).partition("\n\n")[2]
    verb.__doc__ = f"{cleandoc(cast(str, verb.__doc__))}\n\nSettings, each of which is a keyword:\n\n{described}\n"
    cast(Any, verb).__signature__ = shown.replace(parameters=[*own, *more])
    return verb
