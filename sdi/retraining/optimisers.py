"""Optimisers as data: the numbers that an update depends on, named and with the defaults of `torch.optim`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sdi.arguments import number


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, as `torch.optim.SGD`.

    momentum, dampening, nesterov: of the running sum of gradients. weight_decay: added to the gradient, times the
    weights.
    """

    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        _check_not_negative(self, "momentum", "weight_decay")
        if self.nesterov and (self.momentum <= 0 or self.dampening != 0):
            raise ValueError(
                f"nesterov needs momentum above 0 and dampening 0, got momentum={self.momentum} and "
                f"dampening={self.dampening}"
            )

    @property
    def moments(self) -> int:
        """Numbers kept for each weight beside itself."""
        return int(self.momentum != 0)


@dataclass(frozen=True)
class Adam:
    """Adam, as `torch.optim.Adam`: weight decay is added to the gradient.

    betas: memories of the two moments. eps: added to the root of the second. eps_root: added under that root, which
    makes training smoother in its weights; 0 as in torch. weight_decay: times the weights, added to the gradient.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    eps_root: float = 0.0

    def __post_init__(self) -> None:
        _check_not_negative(self, "eps", "weight_decay", "eps_root")
        if len(self.betas) != 2:
            raise ValueError(f"betas must be two numbers, got {self.betas!r}")
        for beta in self.betas:
            number("betas", beta, "numbers of at least 0 and below 1", lambda x: 0 <= x < 1)

    @property
    def moments(self) -> int:
        """Numbers kept for each weight beside itself."""
        return 2


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay, as `torch.optim.AdamW`.

    betas, eps, eps_root: as in `Adam`. weight_decay: times the weights and the learning rate, taken from the weights.
    """

    weight_decay: float = 0.01


Optimiser = SGD | Adam | AdamW
KNOWN = {"SGD": SGD, "Adam": Adam, "AdamW": AdamW}


def check_optimiser(optimiser: Any) -> None:
    """Refuse what is no optimiser whose updates are known here.

    >>> check_optimiser("rmsprop")
    Traceback (most recent call last):
    TypeError: optimiser must be one of sdi.SGD(...), sdi.Adam(...), sdi.AdamW(...), got 'rmsprop'
    """
    if type(optimiser) not in KNOWN.values():
        names = ", ".join(f"sdi.{name}(...)" for name in KNOWN)
        remedy = "; take over its numbers" if hasattr(optimiser, "param_groups") else ""
        shown = type(optimiser).__name__ if remedy else repr(optimiser)
        raise TypeError(f"optimiser must be one of {names}, got {shown}{remedy}")


def describe_optimiser(optimiser: Optimiser) -> dict[str, Any]:
    """The optimiser as plain values, for fingerprints and files.

    >>> describe_optimiser(SGD(momentum=0.9))["momentum"]
    0.9
    """
    return {"optimiser": type(optimiser).__name__, **asdict(optimiser)}


def _check_not_negative(optimiser: Any, *names: str) -> None:
    for name in names:
        number(name, getattr(optimiser, name), "a number of at least 0", lambda x: 0 <= x < float("inf"))
