"""Whether other processes leave a cell without an answer, and what then stands for its fixes."""

import shlex

import pandas as pd

from hvdprof.analyze.findings.evidence import Cell
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.analyze.steps.measured_launches import without_folder
from hvdprof.analyze.steps.other_load import OtherLoad
from hvdprof.model.run import Run

TOO_WIDE = 0.2
"""Half of the 95 % CI of an efficiency from which on the load of others leaves no answer."""

BUSY_LAUNCH = 2 * TOO_WIDE
"""Cores of others in one launch that can set it apart by the width of such an interval.

A smaller load cannot have moved its efficiency from one end of the interval to the other.
"""

WAIT = "--wait-for-quiet"
_TEN_MINUTES = (WAIT, "10m")
_MEASURE_AGAIN = "Measure again when it is idle."
_CALL_AGAIN = f'Start when it is idle: FunctionRunner(wait_for_idle="{_TEN_MINUTES[1]}")'


def is_too_busy(run: Run, cell: pd.Series | Cell) -> bool:
    """Whether other processes leave a row of SCALING without an answer."""
    return _load_without_answer(run, cell) is not None


def busy_sentences(run: Run, cell: pd.Series) -> tuple[str, str] | None:
    """That other processes leave no answer, and what to do; None where they do not.

    Args:
        run: The run that was measured.
        cell: A row of SCALING.
    """
    load = _load_without_answer(run, cell)
    if load is None:
        return None
    return f"The machine is too busy to judge: {load.text}.", _what_to_do(run)


def _load_without_answer(run: Run, cell: pd.Series | Cell) -> OtherLoad | None:
    half = (float(cell["efficiency_high"]) - float(cell["efficiency_low"])) / 2
    if not half > TOO_WIDE:
        return None
    load = cell_setting(run, {key: cell[key] for key in ("model", "np", "engine")}).load
    return load if load.most_cores > BUSY_LAUNCH else None


def _what_to_do(run: Run) -> str:
    if command := wait_command(run):
        return f"Start when it is idle: {command}"
    is_function = (run.manifest.settings.get("script") or {}).get("is_function")
    return _CALL_AGAIN if is_function else _MEASURE_AGAIN


def wait_command(run: Run) -> str:
    """The command of the run that waits until other processes leave the cores alone.

    Empty where no command of `bench` or `run` measured it, as for a function.
    """
    command = [word for word in run.manifest.command if word]
    if command[:1] != ["hvdprof"] or command[1:2] not in (["bench"], ["run"]):
        return ""
    end = command.index("--") if "--" in command else len(command)
    own = without_folder(command[2:end])
    return shlex.join([*command[:2], *_TEN_MINUTES, *own, *command[end:]])


def without_fixes(findings: pd.DataFrame) -> pd.DataFrame:
    """FINDINGS of a run without an answer: those on its cells propose nothing, and are possible.

    What to do is in the verdict, once: to measure again.
    """
    is_of_run = findings["model"].astype(str) == ""
    without = {name: findings[name].where(is_of_run, "") for name in ("action", "fix", "command")}
    trust = findings["confidence"].astype(str).where(is_of_run, "possible")
    return findings.assign(confidence=trust.astype("category"), **without)
