"""The first sentence of a verdict on a run in which ranks stalled."""

import re

import pandas as pd

_RULE = "stalled-tensors"
_SENTENCES = re.compile(r"(?<=\.) (?=[A-Z])")
_WHO_SAW_IT = "hvdprof's watchdog saw "


def stall_sentence(findings: pd.DataFrame) -> str:
    """``Stall at step 5: rank 0 blocked for 20.0 s on stalled rank 1.``, or empty.

    Args:
        findings: FINDINGS of the run.
    """
    seen = findings.loc[findings["id"] == _RULE, "evidence"]
    if seen.empty:
        return ""
    sentences = _SENTENCES.split(str(seen.iloc[0]))
    return next((one for one in sentences if not one.startswith(_WHO_SAW_IT)), sentences[0])
