"""The pages of NCCL Inspector logs: one page for the files of a folder, one per process."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.communication.matched_collectives import matched_gaps
from hvdprof.analyze.files.last_to_submit import last_to_submit_facts, last_to_submit_verdict
from hvdprof.analyze.files.next_recording import torch_recording_command
from hvdprof.model.arrays import FrameRow
from hvdprof.model.file_page import Fact, FilePage, FileVerdict, Unanswered
from hvdprof.model.run import Run
from hvdprof.model.tables.rank_collective_tables import (
    INSPECTOR_COLLECTIVES,
    NO_MATCH,
    RANK_COLLECTIVES,
    inspector_job,
)
from hvdprof.model.tables.waiting_tables import CLOCKS

INSPECTOR = "NCCL Inspector log"
_MOST_SIZES = 8
_MOST_GAPS = 4
_INCLUDES_WAITING = "Times and bandwidths include waiting for the last rank."


def inspector_pages(run: Run, files: Sequence[FrameRow]) -> list[FilePage]:
    """A page for each folder of logs, in the order of its first file.

    Args:
        run: The run with the table.
        files: Rows of FILES that are Inspector logs.
    """
    rows, calls = run.table(INSPECTOR_COLLECTIVES.name), run.table(RANK_COLLECTIVES.name)
    folders: dict[str, list[FrameRow]] = {}
    for row in files:
        folders.setdefault(str(Path(str(row["file"])).parent), []).append(row)
    pages = []
    for folder, members in folders.items():
        own = rows[rows["file"].isin([row["file"] for row in members])]
        names = ["", *own["communicator"].astype(str).unique()]
        jobs = [inspector_job(folder, name) for name in names]
        pages.append(_page(folder, members, own, calls[calls["pass_id"].isin(jobs)]))
    return pages


def _page(
    folder: str, members: list[FrameRow], rows: pd.DataFrame, timed: pd.DataFrame
) -> FilePage:
    calls = rows[~rows["point_to_point"].to_numpy()]
    groups, gaps = _by_size(calls), matched_gaps(timed, CLOCKS.empty())
    verdict = _verdict(groups, timed, gaps)
    split = _split_facts(timed, gaps)
    number = len(members)
    num_ranks = rows[["communicator", "rank"]].dropna().drop_duplicates()
    facts = [
        Fact("num_communicators", "communicators", int(rows["communicator"].nunique())),
        Fact("num_nccl_ranks", "ranks of communicators recorded", len(num_ranks)),
        Fact("num_collectives", "collectives recorded, all ranks", len(calls)),
        Fact("num_sends", "sends and receives", int(rows["point_to_point"].sum())),
        *_gap_facts(calls),
        *_size_facts(groups),
        *split,
    ]
    unanswered = [
        Unanswered(
            "what a step loses, and how much of it is hidden by computation",
            torch_recording_command(max(calls["num_ranks"].dropna().tolist(), default=None)),
        )
    ]
    if not split:
        unanswered.insert(
            0,
            Unanswered(
                "how long each rank waits (no kernel times, or of one rank alone)",
                "NCCL_INSPECTOR_DUMP_VERBOSE=1 on all ranks",
            ),
        )
    return FilePage(
        file=str(members[0]["file"]) if number == 1 else folder,
        kind=INSPECTOR if number == 1 else f"{number} {INSPECTOR}s",
        size_bytes=sum(int(row["size_bytes"]) for row in members),
        facts=tuple(facts),
        unanswered=tuple(unanswered),
        verdict=verdict.sentence,
        caveat=verdict.caveat,
        gravity=verdict.gravity,
    )


def _by_size(calls: pd.DataFrame) -> pd.DataFrame:
    """Total time, number and median bus bandwidth of each collective and size, longest first."""
    groups = calls.groupby(["collective", "size_bytes", "num_ranks"], observed=True).agg(
        number=("exec_ns", "size"),
        total_ns=("exec_ns", "sum"),
        median_ns=("exec_ns", "median"),
        busbw_gb_s=("busbw_gb_s", "median"),
    )
    return groups.sort_values("total_ns", ascending=False, kind="stable").reset_index()


def _verdict(groups: pd.DataFrame, timed: pd.DataFrame, gaps: pd.DataFrame) -> FileVerdict:
    if groups.empty:
        return FileVerdict("")
    top = groups.iloc[0].to_dict()
    share = float(top["total_ns"]) / max(float(groups["total_ns"].sum()), 1.0)
    sentence = (
        f"{top['collective']} of {units.byte_size(top['size_bytes'])} on "
        f"{units.counted(int(top['num_ranks']), 'rank')} takes {units.percent(share)} of the time "
        f"in collectives; median bus bandwidth {units.of_unit(top['busbw_gb_s'], 'GB/s')}."
    )
    matched = timed[(timed["match_id"] != NO_MATCH).to_numpy()]
    total_ns = float((matched["end_ns"] - matched["start_ns"]).sum())
    last = last_to_submit_verdict(timed, gaps)
    if not total_ns or not last.sentence:
        return FileVerdict(sentence, _INCLUDES_WAITING)
    waited = float(gaps["wait_sum_ns"].sum()) / total_ns
    return FileVerdict(
        f"{sentence} {units.percent(waited)} of that time is waiting. {last.sentence}",
        last.caveat,
        last.gravity,
    )


def _gap_facts(calls: pd.DataFrame) -> list[Fact]:
    """Numbers of collectives that are absent between the first and the last of each rank."""
    lines, total = [], 0
    for (name, rank), members in calls.groupby(["communicator", "rank"], observed=True):
        seqs = np.unique(members["seq"].to_numpy())
        absent = int(seqs[-1] - seqs[0] + 1 - len(seqs))
        if absent:
            total += absent
            lines.append(f"rank {rank} of {name}: {absent} of {int(seqs[-1] - seqs[0] + 1)}")
    if not total:
        return [Fact("num_lost", "collectives not recorded in between", 0)]
    more = [f"and {len(lines) - _MOST_GAPS} more ranks"] if len(lines) > _MOST_GAPS else []
    text = "\n".join([str(total), *lines[:_MOST_GAPS], *more])
    return [Fact("num_lost", "collectives not recorded in between", total, text=text)]


def _size_facts(groups: pd.DataFrame) -> list[Fact]:
    if groups.empty:
        return []
    lines = [
        f"{row['collective']} {units.byte_size(row['size_bytes'])}: "
        f"{units.counted(int(row['number']), 'call')}, "
        f"median {units.milliseconds(float(row['median_ns']))}, "
        f"{units.of_unit(row['busbw_gb_s'], 'GB/s')}"
        for row in groups.head(_MOST_SIZES).to_dict("records")
    ]
    if more := len(groups) - len(lines):
        lines.append(f"and {units.counted(more, 'size')} more")
    return [Fact("each_size", "by size: time, bus bandwidth", "\n".join(lines))]


def _split_facts(timed: pd.DataFrame, gaps: pd.DataFrame) -> list[Fact]:
    """Waiting and transfer of the collectives whose kernel times several ranks recorded."""
    if gaps.empty:
        return []
    waited, transfer = int(gaps["wait_sum_ns"].sum()), gaps["transfer_ns"].dropna()
    number, *of_ranks = last_to_submit_facts(timed, gaps)
    return [
        number,
        Fact("wait_sum_ns", "waiting for the last rank, all ranks", waited, "ns"),
        Fact("transfer_median_ns", "shortest call, median", float(transfer.median()), "ns"),
        *of_ranks,
    ]
