"""What the settings of every experiment can do: as plain values, those that the weights depend on, found by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

from sdi.errors import nearest

S = TypeVar("S")


@dataclass(frozen=True)
class ExperimentSettings:
    """A frozen dataclass of plain values. ANALYSIS: the names of those that trained weights do not depend on."""

    ANALYSIS: ClassVar[tuple[str, ...]] = ("config",)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def training(self) -> dict[str, Any]:
        """The settings that the weights depend on; a folder that was begun with others is refused."""
        return {name: value for name, value in asdict(self).items() if name not in self.ANALYSIS}


def find_configuration(configs: Mapping[str, S], name: str) -> S:
    """The configuration of that name, or an error that says which there are.

    configs: settings by name. name: one of them.
    """
    if name not in configs:
        raise ValueError(f"config must be one of {tuple(configs)}, got {name!r}{nearest(name, configs)}")
    return configs[name]
