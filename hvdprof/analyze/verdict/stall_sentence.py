"""The first sentences of a verdict on a run in which ranks stalled."""

import re
from pathlib import PurePath

import pandas as pd

from hvdprof.analyze.findings.advice import sentences
from hvdprof.rundir.stall_format import CALLER_MARK

_RULES = ("stalled-tensors", "unequal-batches")
_STACK = re.compile(r"rank (?P<rank>\d+)(?: in (?P<phase>[^:]+))?: (?P<frames>.+)")
_FRAME = re.compile(r"(?P<file>.+):(?P<line>\d+) (?P<function>\S+)")
_NO_FUNCTION = "<module>"


def stall_sentence(findings: pd.DataFrame) -> str:
    """``Stall at step 5: rank 0 blocked for 20.0 s on stalled rank 1.``, or empty.

    Where the stall ended the job, a second sentence names the line at which the rank hangs.

    Args:
        findings: FINDINGS of the run.
    """
    seen = findings[findings["id"].isin(_RULES).to_numpy()]
    if seen.empty:
        return ""
    first = seen.iloc[0]
    where = _where(str(first["quote"])) if first["severity"] == "error" else ""
    return sentences(str(first["lead"]), where)


def _where(stack: str) -> str:
    found = _STACK.fullmatch(stack)
    if found is None:
        return ""
    innermost, _, caller = found["frames"].partition(CALLER_MARK)
    frame, inside = _FRAME.fullmatch(caller or innermost), _FRAME.fullmatch(innermost)
    if frame is None or inside is None:
        return ""
    function = "" if inside["function"] == _NO_FUNCTION else inside["function"]
    if caller:
        function += f" of {PurePath(inside['file']).name}"
    phase = f"{found['phase']} phase" if found["phase"] else ""
    more = ", ".join(filter(None, (function, phase)))
    place = f"{PurePath(frame['file']).name}:{frame['line']}"
    return f"Rank {found['rank']} hangs at {place}{f' ({more})' if more else ''}."
