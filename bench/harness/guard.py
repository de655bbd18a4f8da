"""How `sdi-bench` ends: 0 done, 1 a device that differs from the CPU, 2 bad input, no such device or a worker that
failed, 70 a defect, 130 stopped. One line says why.

Whether bars are met is in the table, and changes no code.
"""

from __future__ import annotations

from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from sdi.cli import exit_codes
from sdi.cli.exit_codes import BAD_INPUT, STOPPED
from sdi.inputs.script import where_in_script


class Guarded(TyperGroup):
    """Turns errors of any sdi-bench command, its imports included, into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):  # RuntimeErrors, and no errors
            raise
        except KeyboardInterrupt:
            end(STOPPED, "stopped")
        except (Exception, SystemExit) as error:
            place = where_in_script(error)  # a sketch of the user's own
            if place is not None:
                end(BAD_INPUT, f"{place}: {type(error).__name__}: {error}")
            if isinstance(error, (ValueError, TypeError, OSError, RuntimeError)):
                end(BAD_INPUT, str(error))
            exit_codes.end_defect(error, "sdi-bench")


def end(code: int, message: str) -> NoReturn:
    exit_codes.end(code, message, "sdi-bench")
