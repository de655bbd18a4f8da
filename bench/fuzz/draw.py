"""draw: the description of a model, from a seed and an index. Sizes are small, so that they coincide often."""

from __future__ import annotations

import random
from dataclasses import replace

from .cells import CELLS
from .description import Batches, Description
from .mixing import CONDITIONAL, IN_LOOP, MIXING, WHEN
from .styles import EXACT, STYLES
from .write_loop import PACK
from .write_model import LOSSES

EXTRAS = (
    "end",
    "before",
    "after",
    "tied",
    "tied head",
    "one module twice",
    "frozen",
    "frozen read",
    "detach",
    "no_grad",
    "checkpoint",
    "reentrant checkpoint",
    "side",
    "halting",
    "tau",
    "hook",
    "input again",
    "deep",
    "in place",
    "two forwards",
    "two rounds",
    "twice in a step",
    "training mode",
    "a dict comes back",
    "keywords",
    "part of the body",
    "read in the body",
    "head in the body",
    "shared array",
    "style at times",
    "side at times",
)
PER_STEP = ("gate", "step embedding", "row first")
BY_NAME = ("first state", *PER_STEP)  # parameters that the forward that holds the loop uses by name
STEPS = ("core", "tick", "norm", "join")
NOT_TOGETHER = (
    {"checkpoint", "reentrant checkpoint"},
    {"checkpoint", "keywords"},
    {"reentrant checkpoint", "keywords"},
    {"reentrant checkpoint", "a dict comes back"},
    {"side", "side at times"},
    {"two forwards", "two rounds"},
    {"reentrant checkpoint", "side at times"},
    {"reentrant checkpoint", "side"},  # what is left on the side has no graph
    {"reentrant checkpoint", "detach"},  # nor has what is checkpointed, if its input has none
    {"reentrant checkpoint", "no_grad"},
    {"reentrant checkpoint", "frozen read"},
    {"halting", "tau"},
    {"halting", "keywords"},
    {"one module twice", "part of the body"},
    *({name, other} for name in PER_STEP for other in ("halting", "tau")),  # steps end earlier alone
)
RARE = {"called and functional": 0.1, "slope": 0.3, "shared array": 0.3}  # drawn so much less often than others
MIXED = 0.15  # the share of models that mix examples
ATTEMPTS = 10_000


def draw(seed: int, index: int, only: str = "") -> Description:
    """The description number `index`; with `only`, one that has this feature ("side", or "extra: side")."""
    for attempt in range(ATTEMPTS):
        one = _draw(random.Random(f"{seed} {index} {attempt}"))
        if is_valid(one) and (not only or has_feature(one, only)):
            return one
    raise ValueError(f"no model with the feature {only!r} in {ATTEMPTS} attempts; see `Description.features`")


def has_feature(one: Description, only: str) -> bool:
    """
    >>> has_feature(Description(), "linear"), has_feature(Description(), "cell: gate")
    (True, False)
    """
    return any(only in (name, name.partition(": ")[2]) for name in one.features)


def _draw(dice: random.Random) -> Description:
    favourite = dice.randint(2, 5)

    def size(low: int = 1, high: int = 5) -> int:
        return favourite if dice.random() < 0.4 else dice.randint(low, high)

    def batches(most: int, examples: int, length: int) -> Batches:
        """Later batches have the favourite size more often than first ones, which are looked at more closely."""
        found: list[tuple[int, int]] = []
        for k in range(dice.randint(1, most)):
            n = favourite if dice.random() < (0.25 if k < 2 else 0.6) else dice.randint(1, 5 if k == 0 else 3)
            if sum(m for m, _ in found) + n <= examples:
                found.append((n, length if dice.random() < 0.7 else size()))
        return tuple(found)

    tokens, length = dice.random() < 0.7, size()
    cells = []
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3))):
        cell = dice.choices(list(CELLS), [RARE.get(name, 1.0) for name in CELLS])[0]
        styles = [name for name, style in STYLES.items() if style.takes(CELLS[cell].shape, tokens)]
        if styles:
            cells.append((cell, "whole" if "whole" in styles and dice.random() < 0.25 else dice.choice(styles)))
    one = Description(
        d=size(2),
        tau=dice.randint(2, 3),
        k=size(2),
        train=batches(4, 12, length),
        query=batches(3, 7, length),
        tokens=tokens,
        cells=tuple(cells),
        carry=dice.choice(list(PACK)) if dice.random() < 0.2 else "as it is",
        step=dice.choice(STEPS) if dice.random() < 0.4 else "core",
        extras=tuple(extra for extra in EXTRAS if dice.random() < 0.06 * RARE.get(extra, 1.0)),
        loss=dice.choice(list(LOSSES)),
        mode=dice.choice(("query", "query", "query", "train", "matrix")),
        checkpoints=2 if dice.random() < 0.15 else 1,
        seed=dice.randrange(10**6),
    )
    if dice.random() < MIXED:
        mixing = dice.choice(MIXING)
        when = dice.choice(list(WHEN)) if mixing in CONDITIONAL else "always"
        one = replace(one, mixing=mixing, when=when)
    named = tuple(extra for extra in BY_NAME if dice.random() < 0.06)  # last, so that other models stay as they were
    return replace(one, extras=one.extras + named)


def is_valid(one: Description) -> bool:
    """Whether the parts of a description go together: the model runs, and its gradients are what they seem."""
    has = set(one.extras)
    kinds = [cell for cell, _ in one.cells]
    shares = [CELLS[kind].ties and kind != "cast" for kind in kinds]
    return (
        bool(kinds and one.train and one.query)
        and all(STYLES[style].takes(CELLS[cell].shape, one.tokens) for cell, style in one.cells)
        and (one.tokens or (one.carry not in ("flat", "time first") and one.loss != "own length"))
        and (one.tokens or "shared array" not in has)
        and ("style at times" not in has or all(_at_times(one, *cell) for cell in one.cells))
        and not any(pair <= has for pair in NOT_TOGETHER)
        and not ("tied" in has and not (len(shares) > 1 and all(shares[:2])))
        and not ("tied head" in has and not shares[0])
        and not (has & {"halting", "tau"} and one.carry != "as it is")
        and not ("twice in a step" in has and one.step != "tick")  # a step begins at every call of its module
        and not (one.mixing == "steps by size" and one.when == "always")  # which mixes nothing
        and not (one.mixing in IN_LOOP and has & {"halting", "tau", "deep", "two rounds"})
        # Steps may end earlier alone: what is done with all of them, or after the last, would be done elsewhere.
        and not (has & {"halting", "tau"} and has & {"deep", "side", "side at times", "hook", "two rounds"})
        and not (has & {"halting", "tau"} and has & {"after", "tied head", "head in the body"} and "end" not in has)
    )


def _at_times(one: Description, cell: str, style: str) -> bool:
    return style in EXACT and STYLES["whole"].takes(CELLS[cell].shape, one.tokens)
