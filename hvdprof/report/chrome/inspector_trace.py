"""Logs of NCCL's Inspector as a Chrome trace: a process per rank, a lane per communicator.

The plugin writes a log per process. A rank is a number within its communicator, so that a process
is named by its rank in the largest one.

Tested in ``tests/report/chrome/test_inspector_trace.py``.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hvdprof.errors import UsageError
from hvdprof.model.run import Run
from hvdprof.model.tables.rank_collective_tables import INSPECTOR_COLLECTIVES
from hvdprof.report.chrome.chrome_trace import TraceContent
from hvdprof.report.chrome.trace_event import (
    Lane,
    TraceEvent,
    in_order_of_time,
    lanes_without_overlap,
    rows_of,
)
from hvdprof.report.json_values import JsonObject


def has_inspector_logs(run: Run) -> bool:
    """Whether logs of the Inspector are among the files."""
    return not run.table(INSPECTOR_COLLECTIVES.name).empty


def inspector_content(run: Run) -> TraceContent:
    """What ``chrome_trace.write_trace`` writes; times are Unix ns by the clock of each host.

    Args:
        run: Standalone files.

    Raises:
        UsageError: No record has times of kernels.
    """
    rows = run.table(INSPECTOR_COLLECTIVES.name)
    timed = rows[(rows["start_ns"].notna() & rows["end_ns"].notna()).to_numpy()]
    if timed.empty:
        raise UsageError(
            f"The Inspector logs in {run.folder} hold lengths of collectives without kernel times: "
            "there is nothing to draw.",
            hint="Record with NCCL_INSPECTOR_DUMP_VERBOSE=1 on all ranks.",
        )
    timed = timed.assign(process=_processes(timed)).sort_values("start_ns", kind="stable")
    lanes: list[Lane] = []
    sources: list[list[TraceEvent]] = []
    labels: dict[int, str] = {}
    for process, own in timed.groupby("process", sort=True):
        number = int(str(process))
        labels[number] = _label(own)
        thread = 0
        for name, calls in own.groupby("communicator", sort=True, observed=True):
            made, place = _lanes(number, thread, f"communicator {str(name) or 'unknown'}", calls)
            thread += len(made)
            lanes += made
            sources.append(list(_events(made, place, calls)))
    origin = int(timed["start_ns"].min())
    return TraceContent(
        processes=labels,
        lanes=lanes,
        events=in_order_of_time(sources),
        origin_ns=origin,
        about={
            "recorder": "nccl-inspector",
            "np": len(labels),
            "clock": "Unix time by the clock of each host",
            "origin_ns": origin,
            # Nothing in a log bounds the clocks of other hosts.
            "largest_clock_error_us": None,
        },
    )


def _processes(rows: pd.DataFrame) -> pd.Series:
    """A number for each process: a log, and where a log has several ranks, those apart."""
    keys = rows[["file", "communicator", "rank"]].astype({"file": str, "rank": "Int64"})
    per_file = keys.groupby(["file", "communicator"], observed=True)["rank"].nunique()
    joined = per_file[per_file > 1].index.get_level_values("file")
    apart = keys["rank"].fillna(-1).where(keys["file"].isin(joined), 0)
    owner = pd.Series(list(zip(keys["file"], apart, strict=True)), index=rows.index)
    rank_of = {key: _rank_in_largest(own) for key, own in rows.groupby(owner, sort=True)}
    ordered = sorted(rank_of, key=lambda key: (rank_of[key], key))
    return owner.map({key: place for place, key in enumerate(ordered)}).astype("int64")


def _rank_in_largest(rows: pd.DataFrame) -> int:
    """The rank in the largest communicator; -1 where no header states it."""
    known = rows.dropna(subset=["rank"]).sort_values("num_ranks", ascending=False, kind="stable")
    return int(known["rank"].iloc[0]) if len(known) else -1


def _label(rows: pd.DataFrame) -> str:
    rank, host = _rank_in_largest(rows), str(rows["host"].iloc[0])
    name = "rank unknown" if rank < 0 else f"rank {rank}"
    return f"{name} ({host})" if host else name


def _lanes(
    process: int, first: int, name: str, calls: pd.DataFrame
) -> tuple[list[Lane], "np.ndarray[tuple[int], np.dtype[np.int64]]"]:
    """The lanes of a communicator, and the place of each call in them."""
    starts, ends = calls["start_ns"].to_numpy(np.int64), calls["end_ns"].to_numpy(np.int64)
    place = lanes_without_overlap(starts, ends)
    names = [name if not lane else f"{name} ({lane + 1})" for lane in range(int(place.max()) + 1)]
    return [Lane(process, first + number, label) for number, label in enumerate(names)], place


def _events(
    lanes: list[Lane], place: "np.ndarray[tuple[int], np.dtype[np.int64]]", calls: pd.DataFrame
) -> Iterator[TraceEvent]:
    for row, lane in zip(rows_of(calls), place.tolist(), strict=True):
        args: JsonObject = {
            "seq": int(row.seq),
            "rank": None if pd.isna(row.rank) else int(row.rank),
            "num_ranks": None if pd.isna(row.num_ranks) else int(row.num_ranks),
            "size_bytes": int(row.size_bytes),
            "busbw_gb_s": None if pd.isna(row.busbw_gb_s) else float(row.busbw_gb_s),
            "algorithm": str(row.algorithm),
            "protocol": str(row.protocol),
        }
        yield TraceEvent(
            lane=lanes[lane],
            name=str(row.collective),
            start_ns=int(row.start_ns),
            dur_ns=int(row.end_ns) - int(row.start_ns),
            args={name: value for name, value in args.items() if value not in (None, "")},
        )
