"""Which lines of code take longer or less long in the second of two runs.

A line is the same in both where file name and function are: numbers shift with every edit above.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from hvdprof.analyze.compare.outcomes import chance_of, change_of
from hvdprof.analyze.compare.sides import SideCell
from hvdprof.analyze.stats.change_point import holm
from hvdprof.model.cause_names import file_name
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.results.comparison import LINE_CHANGES
from hvdprof.rundir.recording.line_format import BLOCKED_PHASE

LEAST_LAUNCHES = 2
"""Launches of each run without which a difference has no interval."""

_LINE = ["process", "phase", "name", "function"]


def line_changes(
    sides: tuple[pd.DataFrame, pd.DataFrame],
    pairs: Sequence[tuple[SideCell, SideCell]],
    level: float,
) -> pd.DataFrame:
    """LINE_CHANGES: the lines whose time changed beyond chance, largest change first.

    The unit is the launch, mean over its ranks, so that the interval holds the samples as well as
    differences between launches (Welch); the chances are corrected for all lines of a cell (Holm).

    Args:
        sides: LINES of both runs.
        pairs: The cells of both.
        level: Accepted chance that any line of a cell is named without a change.
    """
    rows: list[dict[str, object]] = []
    if not any(table.empty for table in sides):
        for pair in pairs:
            own = [_of_launches(table, cell) for table, cell in zip(sides, pair, strict=True)]
            if all(len(times.columns) >= LEAST_LAUNCHES for times, _ in own):
                key = dict(zip(CELL_KEY, pair[0].key, strict=True))
                rows += [{**key, **row} for row in _changed(own, level)]
    return LINE_CHANGES.frame(rows)


def _of_launches(lines: pd.DataFrame, cell: SideCell) -> tuple[pd.DataFrame, pd.Series]:
    """[lines, launches] Times per step, ns, mean over the ranks, and the numbers of the lines."""
    keys = lines[LAUNCH].astype(str).agg("/".join, axis=1)
    own = lines.assign(launch=keys, name=[file_name(file) for file in lines["file"]])
    own = own[keys.isin({"/".join(key) for key in cell.repeat_of}).to_numpy()]
    own = own[(own["phase"] != BLOCKED_PHASE).to_numpy()]
    of_rank = ["launch", "rank", "process", "phase"]
    # Lines with too few samples have no time of their own, but a share of that of their phase.
    known = own[own["time_ns"].notna()].groupby(of_rank)[["time_ns", "samples"]].sum()
    per_sample = (known["time_ns"] / known["samples"]).rename("per_sample").reset_index()
    own = own.merge(per_sample, on=of_rank, how="inner")
    own = own.assign(time_ns=own["samples"] * own["per_sample"])
    ranks = own.groupby("launch")["rank"].nunique()
    times = own.pivot_table("time_ns", _LINE, "launch", aggfunc="sum", fill_value=0.0) / ranks
    ordered = own.sort_values("samples", ascending=False, kind="stable")
    return times, ordered.groupby(_LINE)["line"].first()


def _changed(
    sides: Sequence[tuple[pd.DataFrame, pd.Series]], level: float
) -> Iterator[dict[str, object]]:
    (first, first_lines), (second, second_lines) = sides
    everywhere = first.index.union(second.index)
    ones, others = (
        times.reindex(everywhere, fill_value=0.0).to_numpy(dtype=np.float64)
        for times in (first, second)
    )
    changes = [
        change_of(one, other, is_paired=False) for one, other in zip(ones, others, strict=True)
    ]
    step_ns = float(ones.sum(axis=0).mean())
    chances = holm([chance_of(change, step_ns) for change in changes])
    order = sorted(range(len(changes)), key=lambda place: -abs(changes[place].value))
    for place in order:
        if chances[place] > level:
            continue
        interval = changes[place].interval()
        key = everywhere[place]
        yield {
            **dict(zip(("process", "phase", "file", "function"), key, strict=True)),
            "first_line": int(first_lines.get(key, 0)),
            "second_line": int(second_lines.get(key, 0)),
            "one_ns": float(ones[place].mean()),
            "other_ns": float(others[place].mean()),
            "difference_ns": interval.value,
            "low_ns": interval.low,
            "high_ns": interval.high,
        }
