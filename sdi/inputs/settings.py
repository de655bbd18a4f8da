"""Settings: the options of a run (sketch, mode, backend, memory, ...), checked when the object is made.

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
Dtype = Literal["float32", "float16", "int8", "float64"]
Audit = Literal["first", "every", "off"]
Memory = Literal["auto", "hooks", "recompute"]
Bars = Literal["auto", "bound", "estimated"]
Widths = int | Mapping[str, int] | None  # one for all parameters, one for each, or none: gradients stay whole
SketchSpec = str | type | Mapping[str, str | type]

MODES, BACKEND_NAMES, FAMILIES = get_args(Mode), get_args(BackendName), get_args(Family)
DTYPES, AUDITS, MEMORIES, BARS = get_args(Dtype), get_args(Audit), get_args(Memory), get_args(Bars)
CHOICES: dict[str, tuple[str, ...]] = {
    "mode": MODES,
    "backend": BACKEND_NAMES,
    "family": FAMILIES,
    "dtype": DTYPES,
    "audit": AUDITS,
    "memory": MEMORIES,
    "stderr": BARS,
}


@dataclass(frozen=True)
class Settings:
    """All settings of a run, checked.

    m: numbers kept for each parameter tensor; a mapping gives one for each (`sdi.spread`); None keeps gradients whole,
        without error.
    spread: give parameters with large gradients a larger share of the numbers that one m for all would take, and others
        less, as measured on a few training examples. None: true if m is one width of the default sketch and train can
        be read twice; an existing store is continued as it was begun.
    seed: the seed of the sketches.
    family: the randomness of the default sketch: "table", fully independent; "polynomial", hash functions that are
        2-wise and 4-wise independent, as the theorems assume, for m a power of two.
    sketch: what gradients are sketched with: a shipped name, an import path, a class, or a mapping from patterns of
        parameter names to these (`SketchMap.draw`).
    mode: whose loop steps get scores of their own: "query"; "train", those of the training example; "matrix", both;
        "tracin", none.
    backend: "fast", PyTorch with sketches; "exact", PyTorch without sketches, error or store; "reference", dense NumPy
        for `sdi.reference` models.
    dtype: the type of stored features: "float32"; "float16" or "int8", half and a quarter of the bytes, with their
        rounding in the error bars; or "float64".
    stderr: how standard errors of scores are computed: "bound", from the sketch's worst case; "estimated", from the
        sketched numbers themselves, about half as wide; "auto", estimated, or for an existing store as it was begun.
    repeats: average scores over so many independent sketches, and measure standard errors from their spread.
    shard: examples per file of the store. A killed run loses at most one unfinished file.
    audit: "first" checks the first batch of each side against autograd and some of its examples alone, proves of every
        batch that losses depend on their own examples alone or else asks by values, and runs one example alone in every
        batch of a new size or number of steps, and for at most one example in 500; "every" checks all batches like the
        first; "off" none.
    memory: "hooks" keeps the activations of the whole loop; "recompute" keeps the inputs of its units and runs these
        again in the backward pass; "auto" takes hooks as long as they fit into the budget.
    budget: bytes of memory that one pass may take; by default half of what is free.
    loss_id: a name for the loss, by which a store knows it; change it whenever the loss means something else. By
        default a store knows a loss by its code and by what that reads, and refuses any other.
    """

    m: Widths = 2048
    spread: bool | None = None
    seed: int = 0
    family: Family = "table"
    sketch: SketchSpec = "tensor"
    mode: Mode = "query"
    backend: BackendName = "fast"
    dtype: Dtype = "float32"
    stderr: Bars = "auto"
    repeats: int = 1
    shard: int = 256
    audit: Audit = "first"
    memory: Memory = "auto"
    budget: int | None = None
    loss_id: str | None = None

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
        if self.loss_id is not None and (not isinstance(self.loss_id, str) or not self.loss_id):
            raise TypeError(f"loss_id must be a text that is not empty, got {self.loss_id!r}")
        if not isinstance(self.spread, bool | None):
            raise TypeError(f"spread must be true or false, got {self.spread!r}")
        if self.spread and (isinstance(self.m, Mapping) or self.m is None):
            raise ValueError(f"m must be one width where spread divides its bytes, got {self.m!r}")
        if self.spread and self.backend == "exact":
            raise ValueError("spread must be false with backend 'exact', which takes no sketches")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def pass_options(self) -> dict[str, Any]:
        """The settings that a backend's Featurizer takes as keywords."""
        return {"audit": self.audit, "memory": self.memory, "budget": self.budget}

    @property
    def keeps_steps(self) -> dict[str, bool]:
        """For each side, whether its features are kept step by step or summed over steps."""
        return {"train": self.mode in ("train", "matrix"), "query": self.mode in ("query", "matrix")}


NAMES = tuple(field.name for field in fields(Settings))


class SettingsArguments(TypedDict, total=False):
    """The fields of `Settings` as keywords."""

    m: Widths
    spread: bool | None
    seed: int
    family: Family
    sketch: SketchSpec
    mode: Mode
    backend: BackendName
    dtype: Dtype
    stderr: Bars
    repeats: int
    shard: int
    audit: Audit
    memory: Memory
    budget: int | None
    loss_id: str | None


def _width(name: str, value: Any) -> int:
    width = whole(name, value)
    at_least_one(name, width)
    return width


def changed(settings: Settings | None, changes: SettingsArguments, verb: str) -> Settings:
    """Settings with some of them changed; TypeError, in Python's words for `verb`, for a keyword that is no setting."""
    for name in changes:
        if name not in NAMES:
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}{nearest(name, NAMES)}")
    return Settings(**{**({} if settings is None else vars(settings)), **changes})


Verb = TypeVar("Verb", bound=Callable[..., Any])


def takes_settings(verb: Verb) -> Verb:
    """Decorate a function with **settings: its signature and docstring then list every setting with its default."""
    shown = signature(verb)
    own = [p for p in shown.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    more = [Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type) for f in fields(Settings)]
    described = cleandoc(cast(str, Settings.__doc__)).partition("\n\n")[2]
    verb.__doc__ = f"{cleandoc(cast(str, verb.__doc__))}\n\nSettings, each of which is a keyword:\n\n{described}\n"
    cast(Any, verb).__signature__ = shown.replace(parameters=[*own, *more])
    return verb
