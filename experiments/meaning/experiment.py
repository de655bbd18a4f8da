"""run_experiment: judge every task, measure smooth horizons, leave strong strings out, write the report. Resumable.

FOLDER/TASK/...             what `judge_task` keeps, and what leaving strong strings out does (parity)
FOLDER/horizons/...         variants of training
FOLDER/continued/...        the shipped parity model, trained on
FOLDER/summary.json README.md *.png
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sdi.files import write_whole
from sdi.run.one_thread import one_thread

from ..base import check_seeds, make_folder, write_json
from .continued import continue_pretrained
from .figure import draw
from .horizons import smooth_horizons
from .one_task import judge_task
from .removal import remove_strings
from .report import report
from .settings import Study

Say = Callable[[str], None]
HORIZON_SEEDS = 2  # whose smooth horizons are measured


def run_experiment(
    folder: Path,
    study: Study,
    seeds: Sequence[int],
    say: Say = lambda words: None,
    command: str = "",
    peers: bool = False,
) -> dict[str, Any]:
    """Carry out a study and write its report. Returns what summary.json holds.

    folder: where everything is kept; a stopped run goes on from it. study: what is asked. seeds: of the models.
    say: called with lines of progress. command: the command line, for the report.
    peers: also judge whole-loss scores of dattri and bergson, which are installed in environments of their own.
    """
    check_seeds(seeds)
    make_folder(folder)
    with one_thread():
        tasks = [judge_task(folder / settings.task, settings, seeds, say, peers) for settings in study.tasks]
        removed = [
            remove_strings(folder / settings.task, settings, seeds, judged["window"], say)
            for settings, judged in zip(study.tasks, tasks, strict=True)
            if settings.task == "parity"
        ]
        horizons = smooth_horizons(folder / "horizons", study.variants, seeds[:HORIZON_SEEDS], say)
        continued = study.continued and continue_pretrained(folder / "continued", study.continued, say)
    summary = {
        "command": command,
        "study": study.to_dict(),
        "tasks": tasks,
        "removed": removed,
        "horizons": horizons,
        "continued": continued,
    }
    write_json(folder / "summary.json", summary)
    draw(summary, folder)
    write_whole(folder / "README.md", report(summary).encode())
    return summary
