"""The first line of the pages that show one launch: who waits for whom, and the parts of a step.

Tested in ``tests/report/screen/test_launch_answers.py``.
"""

import pandas as pd

from hvdprof import units
from hvdprof.model.cause_names import where
from hvdprof.model.step_parts import PART_NAMES
from hvdprof.model.tables.waiting_tables import PATTERNS, STRAGGLER_PATTERNS

_NOTABLE_COST = 0.05
"""A smaller share of the step is no loss worth a name, as for findings."""

_MOST_PARTS = 3


def waiting_answer(caused_wait: pd.DataFrame, stragglers: pd.DataFrame) -> str:
    """The rank that costs most and how often it is last; empty without recorded waits.

    Args:
        caused_wait: Rows of CAUSED_WAIT of one launch.
        stragglers: Rows of STRAGGLERS of it; may be empty.
    """
    if caused_wait.empty:
        return ""
    row = caused_wait.sort_values("cost_ns", ascending=False).iloc[0]
    share = float(row["cost_share"])
    if not share >= _NOTABLE_COST:
        waited = units.milliseconds(float(caused_wait["waited_ns"].mean()))
        return (
            f"No rank costs 5 % of the step in this launch. A rank waits {waited} per step for the "
            "others (mean)."
        )
    own = stragglers[stragglers["rank"] == row["rank"]].to_dict("records")
    is_named = bool(own) and own[0]["pattern"] in STRAGGLER_PATTERNS
    place = f" ({where(str(own[0]['phase']))})" if is_named and own[0]["phase"] else ""
    last = units.percent(float(row["share_last"]), 0)
    cost = units.milliseconds(float(row["cost_ns"]))
    sentence = (
        f"Rank {row['rank']}{place} is last in {last} of the steps of this launch, which costs "
        f"{cost} per step ({units.percent(share, 0)})."
    )
    return sentence if is_named else f"{sentence} Too few or too irregular to be a straggler."


def when_answer(stragglers: pd.DataFrame) -> str:
    """When the rank with the largest cost is late; empty where none is a straggler.

    Args:
        stragglers: Rows of STRAGGLERS of one launch.
    """
    named = stragglers[stragglers["pattern"].isin(STRAGGLER_PATTERNS).to_numpy(dtype=bool)]
    if named.empty:
        return ""
    row = named.sort_values("cost_ns", ascending=False).iloc[0]
    period = float(row["period_steps"])
    how = PATTERNS[str(row["pattern"])]
    if period == period:
        how = f"late every {period:.3g} steps"
    share = units.percent(float(row["share_late"]), 0)
    run = units.counted(int(row["longest_run"]), "step")
    return (
        f"Rank {row['rank']} is {how}: by 5 % of the step or more in {share} of them, at most "
        f"{run} in a row."
    )


def parts_answer(breakdown: pd.DataFrame, step_ns: float) -> str:
    """The mean step with its largest parts; empty without recorded parts.

    Args:
        breakdown: Rows of BREAKDOWN of one launch, whose shares are means over its ranks.
        step_ns: Mean step of the job, as other pages show it; NaN where no step counts.
    """
    if breakdown.empty:
        return ""
    means = breakdown.groupby("part", observed=True)["time_ns"].mean()
    largest = means.sort_values(ascending=False).head(_MOST_PARTS)
    parts = ", ".join(
        f"{PART_NAMES[str(part)]} {units.percent(float(time_ns) / float(means.sum()), 0)}"
        for part, time_ns in largest.items()
    )
    step = units.milliseconds(step_ns if step_ns == step_ns else float(means.sum()))
    return f"A step of this launch takes {step}: {parts}."
