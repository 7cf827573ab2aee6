"""The clause of the verdict that says what the best remedy would bring at most."""

import pandas as pd

from hvdprof import units
from hvdprof.model.run import Verdict

_IF_MENDED = {
    "persistent-straggler": "with {subject} on time",
    "transient-straggler": "with {subject} on time",
    "rotating-stragglers": "without the jitter of its ranks",
    "input-bound": "with data always there",
    "exposed-transfer": "on a perfect network",
    "network-bound": "on a perfect network",
    "below-network": "with transfers that take no time",
    "gloo-transfer": "with transfers that take no time",
    "shared-memory-transfer": "with transfers that take no time",
    "cycle-bound": "with transfers that take no time",
}
"""What a finding's ceiling assumes, by the name of its rule."""

SMALLEST_GAIN = 0.01
"""What gives back less of the step is no remedy to be promised."""


def best_remedy(verdict: Verdict, findings: pd.DataFrame) -> str:
    """`` On a perfect network it would reach at most 91.0 %.``, or nothing.

    Of the findings on the verdict's cell that have a ceiling the one with the largest is told.
    """
    own = findings[
        (findings["model"] == verdict.model)
        & (findings["np"] == verdict.np).fillna(False)
        & (findings["engine"] == verdict.engine)
        & findings["id"].astype(str).isin(_IF_MENDED)
        & (findings["gain_share"] >= SMALLEST_GAIN)
        & (findings["gain_share"] < 1)
    ]
    if own.empty:
        return ""
    row = own.sort_values("gain_share", kind="stable").iloc[-1]
    assumed = _IF_MENDED[str(row["id"])].format(subject=row["subject"])
    reached = verdict.efficiency / (1 - float(row["gain_share"]))
    # Above 1 other parts have gained what this one lost: no promise to make.
    if not reached <= 1:
        return ""
    told = units.percent(reached)
    return f" {assumed[0].upper()}{assumed[1:]} it would reach at most {told}."
