"""Records as Markdown: the command, the machine, the settings, the figures, the bars."""

from __future__ import annotations

from collections.abc import Sequence

from .record import Record, Table


def markdown(records: Sequence[Record]) -> str:
    """One section per record."""
    return "\n\n".join(_section(record) for record in records) + "\n"


def _section(record: Record) -> str:
    facts = [("command", f"`{record.command}`"), *record.machine.items(), *record.settings.items()]
    lines = [f"## {record.kind.capitalize()}", "", "; ".join(f"{name}: {value}" for name, value in facts) + "."]
    for table in record.all_tables:
        lines += ["", f"**{table.title}**", "", *_table(table)]
    return "\n".join(lines)


def _table(table: Table) -> list[str]:
    rows = [[cell.replace("|", "\\|") for cell in row] for row in table.rows]
    return [_row(table.columns), _row(["---"] * len(table.columns)), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
