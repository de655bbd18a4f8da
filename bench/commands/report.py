"""Records as Markdown: the command, the machine, the settings, the figures, the bars; or as a folder with plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sdi.files import write_whole

from ..harness.plot import plot, require_matplotlib
from ..harness.record import Record, Table

INTRODUCTION = """# Scalability and correctness

What the paper claims about scale, measured again, with its figures beside ours. Every section was made by the command
in it; this page by

```
{commands}
sdi-bench report {files} --out {folder}
```

The JSON files hold every round and seed. Ratios come first: absolute times are of one machine.
What each command does is in [docs/benchmarks.md](../../benchmarks.md).
"""


def markdown(records: Sequence[Record], pictures: Sequence[str] = ()) -> str:
    """One section per record, with its picture where there is one."""
    sections = [_section(r, pictures[k] if pictures else "") for k, r in enumerate(records)]
    return "\n\n".join(sections) + "\n"


def write_report(records: Sequence[Record], folder: Path) -> list[Path]:
    """README.md, and for each record its JSON and its plot, named after the command that made it.

    What the folder's NOTES.md says, written by hand, is taken into the page.
    """
    kinds = [record.kind for record in records]
    twice = {kind for kind in kinds if kinds.count(kind) > 1}
    if twice:
        raise ValueError(f"a report takes one record of each command, got several of {sorted(twice)}")
    require_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    written, pictures = [], []
    for record in records:
        file = folder / f"{record.kind}.json"
        record.save(file)
        written.append(file)
        pictures.append(f"{record.kind}.png" if record.charts else "")
        if record.charts:
            plot(record, folder / pictures[-1])
            written.append(folder / pictures[-1])
    commands = "\n".join(record.command for record in records)
    files = " ".join(f"{kind}.json" for kind in kinds)
    head = INTRODUCTION.format(commands=commands, files=files, folder=folder)
    page, notes = folder / "README.md", folder / "NOTES.md"
    if notes.exists():
        head += "\n" + notes.read_text(encoding="utf-8").strip() + "\n"
    write_whole(page, (head + "\n" + _all_bars(records) + markdown(records, pictures)).encode())
    return [*written, page]


def _all_bars(records: Sequence[Record]) -> str:
    rows = [[record.kind, *row] for record in records for row in record.bar_rows]
    if not rows:
        return ""
    table = Table("", ("command", "what", "measured", "bar", "verdict"), rows)
    return "\n".join(["## Bars", "", *_table(table)]) + "\n\n"


def _section(record: Record, picture: str) -> str:
    facts = [("command", f"`{record.command}`"), *record.machine.items(), *record.settings.items()]
    lines = [f"## {record.kind.capitalize()}", "", "; ".join(f"{name}: {value}" for name, value in facts) + "."]
    if picture:
        lines += ["", f"![{record.kind}]({picture})"]
    for table in record.all_tables:
        lines += ["", f"**{table.title}**", "", *_table(table)]
    return "\n".join(lines)


def _table(table: Table) -> list[str]:
    rows = [[cell.replace("|", "\\|") for cell in row] for row in table.rows]
    return [_row(table.columns), _row(["---"] * len(table.columns)), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
