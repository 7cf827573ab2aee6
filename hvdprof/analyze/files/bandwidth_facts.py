"""Facts of bandwidth benchmarks, one function per table: of the rows of one file.

Tested in ``tests/analyze/files/test_log_verdict.py``.
"""

from collections.abc import Sequence

import pandas as pd

from hvdprof import units
from hvdprof.model.file_page import Fact
from hvdprof.model.frame_row import FrameRow, is_missing

_MOST_RUNS = 12


def nccl_run_facts(runs: pd.DataFrame) -> list[Fact]:
    """The runs of nccl-tests in a file: the facts of a single one, or a line for each."""
    facts = [Fact("num_runs", "runs of nccl-tests", len(runs))]
    if len(runs) > 1:
        lines = numbered_lines([_nccl_run(row) for row in runs.to_dict("records")])
        return [*facts, Fact("each_run", "run", lines)]
    (row,) = runs.to_dict("records")
    np, average = row["np"], float(row["avg_busbw_gb_s"])
    peak, size = float(row["peak_busbw_gb_s"]), _whole(row["peak_size_bytes"])
    rounded, size = ("below 0.01 GB/s", None) if peak == 0 else ("", size)
    return [
        *facts,
        Fact("operation", "operation", str(row["operation"]) or None),
        Fact("num_ranks", "ranks", None if is_missing(np) else int(np)),
        Fact("device", "device", str(row["device"]) or None),
        Fact("avg_busbw_gb_s", "average over all sizes", average, "GB/s"),
        Fact("peak_busbw_gb_s", "peak bus bandwidth", peak, "GB/s", text=rounded),
        Fact("peak_size_bytes", "reached at", size, "bytes"),
        Fact("num_wrong", "wrong elements", _whole(row["num_wrong"])),
        Fact("failed", "failed", _failed(row)),
    ]


def _nccl_run(row: FrameRow) -> str:
    ranks = "" if is_missing(row["np"]) else units.counted(int(row["np"]), "rank")
    if row["failed"]:
        result = "failed"
    elif not row["num_sizes"]:
        result = "no rows"
    elif is_missing(row["peak_size_bytes"]):
        result = "no bandwidth"
    else:
        peak = units.of_unit(row["peak_busbw_gb_s"], "GB/s")
        result = f"peak {peak} at {units.byte_size(row['peak_size_bytes'])}"
    average = float(row["avg_busbw_gb_s"])
    mean = "" if average != average else f"average {units.of_unit(average, 'GB/s')}"
    wrong = _whole(row["num_wrong"])
    parts = (
        str(row["operation"]),
        ranks,
        result,
        mean,
        units.counted(wrong, "wrong element") if wrong else "",
        f"line {row['line']}",
    )
    return ", ".join(filter(None, parts))


def _failed(row: FrameRow) -> str | None:
    """Whether a run failed; None where the file holds neither its end nor a failure."""
    if row["failed"]:
        return "yes"
    return None if is_missing(row["avg_busbw_gb_s"]) else "no"


def allreduce_bench_facts(rows: pd.DataFrame) -> list[Fact]:
    """The highest bus bandwidth of all_reduce_bench.py and its payload, table by table."""
    facts = [Fact("num_payloads", "payloads measured", len(rows))]
    best = [
        members.iloc[int(members["busbw_gb_s"].to_numpy().argmax())].to_dict()
        for _, members in rows.groupby("run", sort=True)
    ]
    if len(best) > 1:
        lines = numbered_lines([_bench_table(row) for row in best])
        return [*facts, Fact("each_table", "table", lines)]
    (row,) = best
    return [
        *facts,
        Fact("num_ranks", "ranks", _whole(row["np"])),
        Fact("peak_busbw_gb_s", "peak bus bandwidth", float(row["busbw_gb_s"]), "GB/s"),
        Fact("peak_size_bytes", "reached at", int(row["size_bytes"]), "bytes"),
    ]


def _bench_table(row: FrameRow) -> str:
    ranks = "" if is_missing(row["np"]) else f"{units.counted(int(row['np']), 'rank')}, "
    peak = units.of_unit(row["busbw_gb_s"], "GB/s")
    return f"{ranks}peak {peak} at {units.byte_size(row['size_bytes'])}, line {row['line']}"


def numbered_lines(texts: Sequence[str]) -> str:
    """A numbered line for each of several runs, and how many more there are."""
    lines = [f"{number}: {text}" for number, text in enumerate(texts[:_MOST_RUNS], start=1)]
    more = len(texts) - len(lines)
    return "\n".join([*lines, f"and {more} more"] if more else lines)


def _whole(value: object) -> int | None:
    return None if is_missing(value) else int(str(value))
