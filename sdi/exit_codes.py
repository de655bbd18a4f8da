"""How a command ends: 0 done, 1 a check failed, 2 bad input, 130 stopped by the user. One line on stderr says why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path

import typer

from sdi.errors import AuditError
from sdi.script import where_in_script

FAILED, BAD_INPUT, STOPPED = 1, 2, 130


@contextmanager
def exit_codes(json: bool = False, script: Path | None = None) -> Iterator[None]:
    """An error that a user can do something about becomes a message and a code; any other is a defect, and flies.

    With json, whatever a user's script prints goes to stderr: stdout is for the document alone.
    """
    try:
        with redirect_stdout(sys.stderr) if json else nullcontext():
            yield
    except AuditError as error:
        end(FAILED, f"audit failed: {error}")
    except KeyboardInterrupt:
        end(STOPPED, "stopped; the same command goes on where it was")
    except Exception as error:
        place = where_in_script(error, script)
        if place is not None:
            end(BAD_INPUT, f"{place}: {type(error).__name__}: {error}")
        if isinstance(error, (ValueError, TypeError, OSError, ImportError)):
            end(BAD_INPUT, str(error))
        raise


def end(code: int, message: str) -> None:
    print(f"sdi: {message}", file=sys.stderr)
    raise typer.Exit(code) from None
