"""A finished run as named numbers, for tools that keep scalars of many runs."""

import math
from collections import defaultdict

from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name, ranks_of
from hvdprof.model.causes import STRAGGLER
from hvdprof.model.cell_key import CELL_KEY, has_no_toggles
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.units import milliseconds, two_digit_percent

PREFIX = "hvdprof/summary"
_IN_A_KEY = "_./ -"
_OF_SCALING = {
    "samples_per_s": ("samples_per_second", 1.0),
    "step_time_median_ns": ("step_seconds", 1 / 1e9),
    **{name: (name, 1.0) for name in ("efficiency", "efficiency_low", "efficiency_high")},
}


def flat_summary(analysis: RunAnalysis) -> dict[str, float]:
    """``{"hvdprof/summary/efficiency": 0.84, ...}``; what is unknown has no key.

    Efficiencies of the verdict, then of each cell under ``model/np2/engine``: throughput, median
    step time in seconds, efficiency with its 95 % interval, and in ``cost_seconds`` and
    ``cost_ratio`` what each cause adds to the step; those of ranks with ranks and phase.
    """
    found: dict[str, float] = defaultdict(float)
    for name in ("efficiency", "efficiency_low", "efficiency_high"):
        found[f"{PREFIX}/{name}"] = float(getattr(analysis.verdict, name))
    for row in analysis.scaling.to_dict("records"):
        for column, (name, factor) in _OF_SCALING.items():
            found[f"{_cell(row)}/{name}"] = float(str(row[column])) * factor
    for row in analysis.table(WATERFALL.name).to_dict("records"):
        # One cause may come in two patterns: their costs add up.
        found[f"{_cell(row)}/cost_seconds/{_cause(row)}"] += float(row["time_ns"]) / 1e9
        found[f"{_cell(row)}/cost_ratio/{_cause(row)}"] += float(row["share"])
    return {_key(name): value for name, value in found.items() if math.isfinite(value)}


def differing_ranks(analysis: RunAnalysis) -> str:
    """The ranks that are slower than the others, one a line, with cost; empty without any."""
    lines = [
        f"{row['model']}, {row['np']} ranks: {cause_name(row)}, "
        f"{milliseconds(float(row['time_ns']))} per step ({two_digit_percent(float(row['share']))})"
        for row in analysis.table(WATERFALL.name).to_dict("records")
        if row["term"] == STRAGGLER
    ]
    return "\n".join(lines)


def _key(name: str) -> str:
    return "".join(one if one.isalnum() or one in _IN_A_KEY else "_" for one in name)


def _cell(row: FrameRow) -> str:
    model, size, engine, *toggles = (str(row[name]) for name in CELL_KEY)
    more = [] if has_no_toggles(row) else toggles
    return "/".join([PREFIX, model.replace("/", "_"), f"np{size}", engine, *more])


def _cause(row: FrameRow) -> str:
    ranks = ranks_of(row)
    whose = [f"rank_{'_'.join(map(str, ranks))}", str(row["phase"])] if ranks else []
    return "/".join(filter(None, [str(row["term"]), *whose]))
