"""One launch on a first screen: the mean step of each rank by part, and who waits for whom."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import ranks_of, where
from hvdprof.model.causes import PART_NAMES, RECORDED_PARTS
from hvdprof.model.cell_key import LAUNCH, Mode, of_base_cell
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import as_text
from hvdprof.model.tables.collective_tables import BREAKDOWN
from hvdprof.model.tables.waiting_tables import PATTERNS, RANK_COSTS, STRAGGLER_PATTERNS
from hvdprof.model.tables.waterfall_tables import WATERFALL

MOST_BARS = 12
"""Ranks that have a bar: of more, the slowest six, the median one and the fastest five."""

_SLOWEST, _FASTEST = 6, 5
_BLOCKED = "blocked"
_SMALLEST = 0.002
"""A part below this share of the longest bar is not drawn."""

_NOTABLE_COST = 0.05
"""A smaller share of the step is no loss worth a name, as for findings."""

_MOST_PARTS = 3


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a step: its name of ``PART_NAMES``, and its share of the longest bar.

    ``excess`` is what the verdict names: ``+32 ms`` against the other ranks; else empty.
    """

    part: str
    text: str
    share: float
    excess: str = ""


@dataclass(frozen=True, slots=True)
class RankBar:
    """One bar: a rank, or the baseline, whose ``rank`` is None."""

    label: str
    rank: int | None
    step: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class RankBars:
    """The bars, and how many ranks the cell has."""

    bars: tuple[RankBar, ...]
    num_ranks: int


def rank_bars(analysis: RunAnalysis, cell: FrameRow) -> RankBars | None:
    """The bars of a cell, its toggles ignored: means over its launches; None without parts."""
    means = _mean_parts(analysis, str(cell["model"]), int(cell["np"]), str(cell["engine"]))
    if means.empty:
        return None
    named = _named(analysis, cell)
    own = means.drop(columns=_BLOCKED, errors="ignore").sum(axis=1)
    shown = _shown([int(rank) for rank in own.sort_values(ascending=False).index])
    base = _baseline(analysis, cell)
    longest = max(float(means.sum(axis=1).max()), float(base.sum()) if len(base) else 0.0)
    bars = [_bar("baseline", None, base, longest, {})] if len(base) else []
    for rank in shown:
        parts = {part: text for (who, part), text in named.items() if who == rank}
        bars.append(_bar(f"rank {rank}", rank, pd.Series(means.loc[rank]), longest, parts))
    return RankBars(tuple(bars), len(means))


def _mean_parts(analysis: RunAnalysis, model: str, num_ranks: int, engine: str) -> pd.DataFrame:
    """Mean time of each part [rank, part], ns; timed launches before traced ones.

    The whole is the step time of SCALING, as in the waterfall: means of logarithms over launches.
    """
    rows = rows_of_cell(analysis, BREAKDOWN.name, model, num_ranks, engine)
    rows = rows.assign(part=rows["part"].astype(str))
    means = pd.pivot_table(rows, values="time_ns", index="rank", columns="part", aggfunc="mean")
    cells = of_base_cell(analysis.scaling, model, num_ranks, engine)
    # Foreign traces may not state it: then it is missing.
    batch = cells["batch_size"].astype("float64")
    whole_ns = float((batch * cells["np"] / cells["samples_per_s"]).mean()) * 1e9
    mean_ns = float(means.sum(axis=1).mean())
    return means * (whole_ns / mean_ns) if whole_ns > 0 and mean_ns > 0 else means


def rows_of_cell(
    analysis: RunAnalysis, table: str, model: str, num_ranks: int, engine: str
) -> pd.DataFrame:
    """The rows of a table that are of the launches of a cell, by text."""
    segments = of_base_cell(analysis.run.segments, model, num_ranks, engine)
    timed = segments[(segments["mode"] == Mode.THROUGHPUT).to_numpy(dtype=bool)]
    launches = as_text((timed if len(timed) else segments)[LAUNCH], LAUNCH)
    return as_text(analysis.table(table), LAUNCH).merge(launches, on=list(LAUNCH))


def _baseline(analysis: RunAnalysis, cell: FrameRow) -> pd.Series:
    """Mean parts of the baseline that the cell names; empty without one that is recorded."""
    named = analysis.scaling[
        (analysis.scaling["model"] == cell["model"]).to_numpy(dtype=bool)
    ].to_dict("records")
    for row in named:
        is_base = cell["baseline"] == f"{row['engine']} np={row['np']}"
        if is_base and (row["engine"], row["np"]) != (cell["engine"], cell["np"]):
            means = _mean_parts(analysis, str(row["model"]), int(row["np"]), str(row["engine"]))
            return means.mean()
    return pd.Series(dtype="float64")


def _named(analysis: RunAnalysis, cell: FrameRow) -> dict[tuple[int, str], str]:
    """What the verdict's cause adds to a part of a rank, by (rank, part)."""
    verdict = analysis.verdict
    if (cell["model"], cell["np"], cell["engine"]) != (verdict.model, verdict.np, verdict.engine):
        return {}
    key = str(cell["model"]), int(cell["np"]), str(cell["engine"])
    causes = of_base_cell(analysis.table(WATERFALL.name), *key)
    own = causes[(causes["cause_id"] == verdict.parts.cause_id).to_numpy(dtype=bool)]
    costs = rows_of_cell(analysis, RANK_COSTS.name, *key)
    found = {}
    for row in own.to_dict("records"):
        for rank in ranks_of(row):
            is_it = (costs["rank"] == rank) & (costs["phase"].astype(str) == str(row["phase"]))
            later = costs[is_it.to_numpy(dtype=bool)]["later_ns"]
            if len(later) and float(later.mean()) > 0:
                text = f"+{units.milliseconds(float(later.mean()), 2)}"
                found[rank, str(row["phase"])] = text
    return found


def _shown(slowest_first: Sequence[int]) -> list[int]:
    """At most twelve ranks, ascending where all have a bar, else slowest first."""
    if len(slowest_first) <= MOST_BARS:
        return sorted(slowest_first)
    median = slowest_first[len(slowest_first) // 2]
    return [*slowest_first[:_SLOWEST], median, *slowest_first[-_FASTEST:]]


def _bar(
    label: str, rank: int | None, parts: pd.Series, longest: float, named: dict[str, str]
) -> RankBar:
    times = {part: float(parts[part]) for part in RECORDED_PARTS if part in parts.index}
    segments = [
        Segment(
            part,
            f"{label}, {PART_NAMES[part]}: {units.milliseconds(time_ns)}",
            time_ns / longest,
            named.get(part, ""),
        )
        for part, time_ns in times.items()
        if time_ns >= _SMALLEST * longest
    ]
    whole = sum(time_ns for time_ns in times.values() if time_ns == time_ns)
    return RankBar(label, rank, units.milliseconds(whole), tuple(segments))


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
    """When the rank with the largest cost in a launch is late; empty where none is a straggler."""
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
