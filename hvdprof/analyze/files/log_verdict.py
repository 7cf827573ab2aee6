"""The verdict on a standalone log: its worst finding with the fix, or its stalls."""

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.finding import first_fix, title_inside
from hvdprof.analyze.findings.nccl_rules.nccl_rule import ranks_text
from hvdprof.model.standalone_files import FileVerdict

_PROBLEMS = ("error", "warning")


def log_verdict(findings: pd.DataFrame, stalls: pd.DataFrame) -> FileVerdict:
    """The worst finding and its fix, else the stalls; empty where there is neither.

    Args:
        findings: Rows of FINDINGS whose quote is in the file, the worst first.
        stalls: Rows of STALLS of the file.
    """
    problems = findings[findings["severity"].isin(_PROBLEMS).to_numpy()]
    if len(problems):
        return FileVerdict(_of_findings(problems))
    return FileVerdict(_of_stalls(stalls) if len(stalls) else "")


def _of_findings(problems: pd.DataFrame) -> str:
    worst = problems.iloc[0]
    numbers = problems["severity"].astype(str).value_counts()
    counted = " and ".join(
        _counted(int(numbers[name]), name) for name in _PROBLEMS if name in numbers
    )
    title, fix = title_inside(str(worst["title"])), first_fix(str(worst["action"]))
    if len(problems) == 1:
        return f"{str(worst['severity']).capitalize()}: {title}; fix: {fix}."
    return f"{counted}, first: {title}; fix: {fix}."


def _of_stalls(stalls: pd.DataFrame) -> str:
    missing = stalls[(stalls["state"] == "missing").to_numpy()]
    ranks = sorted({int(rank) for rank in missing["stalled_rank"] if rank >= 0})
    tensors = _counted(int(stalls["tensor"].nunique()), "tensor")
    waited = units.seconds(float(stalls["waited_s"].max()))
    if not ranks:
        return f"Stall: {tensors} stalled for at least {waited}."
    return f"Stall: {ranks_text(ranks)} did not submit {tensors} for at least {waited}."


def _counted(number: int, noun: str) -> str:
    return f"{units.count(number)} {noun}{'' if number == 1 else 's'}"
