"""Loop: which parameters form the body of a looped model, and which call begins a step.

Steps are counted by forward calls of the step module. A step lasts from one such call to the next; the
optional end module closes the last one. Calls of body modules before the first step or after the end belong
to no step: they get a slot of their own, "outside", which counts in the total.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sdi.arguments import at_least_one, one_of, whole
from sdi.errors import CoverageError, nearest_or_first

Calls = Literal["one", "restart", "continue"]
CALLS = get_args(Calls)


@dataclass(frozen=True)
class Loop:
    """Which parameters of a looped model are traced, and how its steps are counted.

    body: the modules or parameters to trace, by name, or as modules.
    step: the module whose every call begins a step, by name or as a module; a list, where each call of any of them
    does: modules that are distinct but share their parameters, or the layers of a model as its steps.
    end: the module whose call ends the last step; None: the last step lasts until the loss is computed.
    calls: what it means if the loss calls the model more than once (rounds of deep supervision, rollouts, pairs). "one"
    refuses, because two things can be meant: "restart" counts the steps of every call from 1, so that rounds add up
    step by step; "continue" counts on, so that the first step of the second round follows the last of the first.
    cycle: of a loop within a loop (H cycles of L steps each), the module whose every call begins the next cycle, by
    name or as a module; it may also be the one that ends each. None, with `inner` and calls="continue": each call of
    the model is a cycle. inner: how many steps a cycle may have. Step k of cycle c is number (c - 1) * inner + k,
    whatever the other cycles had, so `result.nested()` has an axis for each; what a shorter cycle lacks is zero.

    >>> Loop(body="core", step="core").body
    ('core',)
    """

    body: Sequence[Any]
    step: Any
    end: Any = None
    calls: Calls = "one"
    cycle: Any = None
    inner: int | None = None

    def __post_init__(self) -> None:
        # A ModuleList iterates over its children and a ModuleDict over its keys, yet each is one module.
        one = isinstance(self.body, str) or hasattr(self.body, "named_parameters")
        body = (self.body,) if one or not isinstance(self.body, Iterable) else tuple(self.body)
        if not body:
            raise ValueError("body must name at least one module or parameter, got an empty list")
        steps = tuple(self.step) if isinstance(self.step, (list, tuple)) else (self.step,)
        if not steps or any(step is None or (isinstance(step, str) and not step) for step in steps):
            raise ValueError(f"step must name the module whose call begins a step, got {self.step!r}")
        if isinstance(self.step, (list, tuple)):
            object.__setattr__(self, "step", steps if len(steps) > 1 else steps[0])
        one_of("calls", self.calls, CALLS)
        if self.inner is not None:
            at_least_one("inner", whole("inner", self.inner))
        marked = self.cycle is not None or self.calls == "continue"
        if (self.cycle is not None and self.inner is None) or (self.inner is not None and not marked):
            raise ValueError(
                "a loop within a loop needs both what begins a cycle (cycle=..., or calls='continue' for the calls of "
                f"the model) and how many steps it may have (inner=...), got cycle={self.cycle!r}, inner={self.inner!r}"
            )
        object.__setattr__(self, "body", body)

    @property
    def steps(self) -> tuple[Any, ...]:
        """The modules whose calls begin a step, one or several."""
        return self.step if isinstance(self.step, tuple) else (self.step,)

    def select(self, names: Iterable[str]) -> tuple[str, ...]:
        """The parameters that belong to the body.

        names: all parameter names of the model. Returned are those in the body, in the same order.

            >>> Loop(body=["core"], step="core").select(["read_in.weight", "core.0.weight", "core.0.bias"])
            ('core.0.weight', 'core.0.bias')
        """
        known = list(names)
        chosen: set[str] = set()
        for entry in self.body:
            if not isinstance(entry, str):
                raise TypeError(f"body entry {entry!r} must be a name here; this backend knows its parameters by name")
            hits = [name for name in known if name == entry or name.startswith(entry + ".")]
            if not hits:
                parts = (name.split(".") for name in known)
                prefixes = dict.fromkeys(".".join(p[: k + 1]) for p in parts for k in range(len(p)))
                hint = nearest_or_first(entry, sorted(prefixes, key=lambda name: name.count(".")))
                raise CoverageError(f"body entry {entry!r} matches no parameter of the model{hint}")
            chosen.update(hits)
        return tuple(name for name in known if name in chosen)


def check_loop(loop: Any) -> None:
    """TypeError for anything that is no Loop.

    >>> check_loop("core")
    Traceback (most recent call last):
    TypeError: loop must be an sdi.Loop, such as sdi.Loop(body=["core"], step="core"), got 'core'
    """
    if not isinstance(loop, Loop):
        raise TypeError(f'loop must be an sdi.Loop, such as sdi.Loop(body=["core"], step="core"), got {loop!r}')
