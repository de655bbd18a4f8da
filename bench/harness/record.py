"""Record: what one command measured, to be printed, saved as JSON, and turned into Markdown by `report`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sdi.files import write_whole

from .bars import Verdict
from .chart import Chart
from .machine import describe_machine


@dataclass(frozen=True)
class Table:
    """Cells are text, formatted where they were measured; the figures themselves are in Record.figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Record:
    kind: str
    settings: dict[str, Any]
    figures: Mapping[str, Sequence[float]]  # every round, every seed
    tables: Sequence[Table]
    bars: Sequence[Verdict] = ()
    charts: Sequence[Chart] = ()
    command: str = field(default_factory=lambda: " ".join(["sdi-bench", *sys.argv[1:]]))
    machine: Mapping[str, str] = field(default_factory=describe_machine)
    failures: Mapping[str, str] = field(default_factory=dict)  # the whole text of each; a table has room for a line

    @property
    def judged(self) -> bool:
        """Whether the bars say anything: not of a quick run, whose sizes are tiny."""
        return not self.settings.get("quick", False)

    @property
    def bar_rows(self) -> list[list[str]]:
        return [bar.row(self.judged) for bar in self.bars]

    @property
    def all_tables(self) -> list[Table]:
        """The tables, and the bars as the last of them."""
        if not self.bars:
            return list(self.tables)
        return [*self.tables, Table("Bars", ("ratio", "measured", "bar", "verdict"), self.bar_rows)]

    def to_json(self) -> str:
        bars = [{**asdict(bar), "met": bar.met if self.judged else None} for bar in self.bars]
        content = {**asdict(self), "bars": bars, "version": 1}
        if not self.failures:
            del content["failures"]  # as in files from before there was such a key: these are saved again by `report`
        return json.dumps(content, indent=2)

    def save(self, path: Path) -> None:
        write_whole(path, (self.to_json() + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Record:
        try:
            content = json.loads(path.read_text())
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is not JSON: {error}") from None
        if not isinstance(content, dict) or content.pop("version", None) != 1:
            raise ValueError(f"{path} was not written by this version of sdi-bench")
        bars = [Verdict(b["says"], b["sense"], b["bound"], b["value"]) for b in content.pop("bars")]
        tables = [Table(**table) for table in content["tables"]]
        charts = [Chart.from_dict(chart) for chart in content.pop("charts", [])]
        return cls(**{**content, "tables": tables, "bars": bars, "charts": charts})
