"""`sdi index`: build the index that `sdi top --index` asks, and say what it takes."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from sdi.cli.exit_codes import exit_codes
from sdi.cli.progress import status
from sdi.printable import printable
from sdi.units import bytes_text


def index_command(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A config, or a run's folder.")],
    kind: Annotated[str, typer.Option(help="compressed: some bytes an example; exact: all of its numbers.")] = (
        "compressed"
    ),
    width: Annotated[int, typer.Option(help="Principal axes of a compressed index, 4 bits each.")] = 32,
    train_steps: Annotated[
        str | None, typer.Option(help="Index these steps of the training examples (3-5), not their sums.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Build an index of the training examples (FAISS), which `sdi top --index` asks for candidates."""
    from sdi.cli.run_config import make_index, parse_steps, read_source

    with exit_codes(json), status(quiet=json) as tell:
        index, path = make_index(read_source(str(source)), kind, width, parse_steps(train_steps), tell)
        size = path.stat().st_size
    each = index.nbytes / max(1, len(index))
    found: dict[str, Any] = {"index": str(path), "kind": index.kind, "examples": len(index), "bytes": size}
    if json:
        print(jsonlib.dumps({**found, "bytes_searched_per_example": each}, indent=1))
        return
    print(
        f"index {printable(path)}: {index.kind}, {len(index):,} examples, {bytes_text(size)}; "
        f"{bytes_text(each)} an example are searched"
    )
