"""Facts of standalone logs, one function per table: of the rows of one file."""

from collections.abc import Sequence

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.hang_verdict import whole_or_none
from hvdprof.analyze.files.log_verdict import ended_process
from hvdprof.analyze.files.next_recording import scaling_command
from hvdprof.analyze.findings.log_rules.stall_rule import missing_rows
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.file_page import Fact, Unanswered
from hvdprof.rank_names import ranks_listed

_MOST_RUNS = 12
_MOST_NAMES = 6
_SEVERE = ("warning", "error", "fatal")


def log_facts(log: pd.DataFrame) -> list[Fact]:
    """Lines of Horovod's own log, and how many of them warn."""
    severe = int(log["level"].isin(_SEVERE).sum())
    return [
        Fact("num_log_lines", "lines of Horovod's log", len(log)),
        Fact("num_log_warnings", "of them warnings or errors", severe),
    ]


def stall_facts(stalls: pd.DataFrame) -> list[Fact]:
    """Stall warnings: how many, which ranks they name, whether Horovod gave up."""
    missing = missing_rows(stalls)
    facts = [
        Fact("num_stall_warnings", "stall warnings", int(stalls["warning"].nunique())),
        Fact("num_stalled_tensors", "stalled tensors named", int(stalls["tensor"].nunique())),
        Fact("waited_s", "waited at least", float(stalls["waited_s"].max()), "s"),
    ]
    if len(missing):
        ranks = sorted(int(rank) for rank in missing["stalled_rank"].unique())
        facts.append(Fact("missing_ranks", "ranks that did not submit", ranks_listed(ranks)))
    if stalls["shutdown"].any():
        ranks = sorted(int(rank) for rank in stalls.loc[stalls["shutdown"], "stalled_rank"])
        facts.append(Fact("shutdown_ranks", "shut down because of ranks", ranks_listed(ranks)))
    return facts


def incident_facts(incidents: pd.DataFrame) -> list[Fact]:
    """What went wrong first, and the processes whose end a launcher reports."""
    later = incidents[(incidents["kind"] == "later-end").to_numpy()]
    first = incidents.drop(later.index if len(later) < len(incidents) else []).iloc[0]
    facts = [
        Fact("num_incidents", "lines that report trouble", len(incidents)),
        Fact("first_incident", f"first, in line {first['line']}", str(first["message"])),
    ]
    ends = incidents[incidents["kind"] == "process-end"]
    if (ends["failed_at"] != "").all():
        ends = ends.sort_values("failed_at", kind="stable")
    if len(ends):
        facts.append(Fact("process_end", "first end of a process", _end_of(ends.iloc[0])))
    if len(later):
        ends_of = [_end_of(row) for _, row in later.head(_MOST_NAMES).iterrows()]
        more = [f"and {len(later) - _MOST_NAMES} more"] if len(later) > _MOST_NAMES else []
        label = "ended after it" if len(ends) else "ended, in no stated order"
        facts.append(Fact("later_ends", label, "\n".join([*ends_of, *more])))
    return facts


def timeout_facts(timeouts: pd.DataFrame) -> list[Fact]:
    """Collectives at which PyTorch's watchdog gave up, and on which ranks."""
    rows = timeouts[timeouts["timed_out"].to_numpy()]
    ranks = sorted({int(rank) for rank in rows["rank"].dropna()})
    names = dict.fromkeys(str(name) for name in rows["operation"] if str(name))
    return [
        Fact("num_timeouts", "collective timeouts", len(rows)),
        Fact("timeout_ranks", "on ranks", ranks_listed(ranks) or None),
        Fact("timeout_operations", "in", ", ".join(list(names)[:_MOST_NAMES]) or None),
    ]


def autotune_facts(samples: pd.DataFrame) -> list[Fact]:
    """The best sample, and whether tuning came to its end; of several logs, a line for each."""
    runs = [members for _, members in samples.groupby("run", sort=True)]
    if len(runs) > 1:
        number = Fact("num_samples", "samples", len(samples))
        lines = numbered_lines([_of_tuning(members) for members in runs])
        return [number, Fact("each_tuning", "tuning", lines)]
    best = _best_sample(samples)
    return [
        Fact("num_samples", "samples", len(samples)),
        Fact("best_cycle_time_ns", "best cycle time", int(best["cycle_time_ns"]), "ns"),
        Fact(
            "best_fusion_threshold_bytes",
            "best fusion threshold",
            round(float(best["fusion_threshold_mb"]) * 2**20),
            "bytes",
        ),
        # Horovod's score is bytes per microsecond, which is MB/s.
        Fact("best_score", "its reduced bytes per time", float(best["score"]), "MB/s"),
        Fact("finished", "tuning finished", "yes" if samples["final"].any() else "not shown"),
    ]


def _best_sample(samples: pd.DataFrame) -> "pd.Series[float]":
    return samples.iloc[int(samples["score"].to_numpy().argmax())]


def _of_tuning(samples: pd.DataFrame) -> str:
    best = _best_sample(samples)
    cycle = units.milliseconds(float(best["cycle_time_ns"]))
    threshold = units.byte_size(float(best["fusion_threshold_mb"]) * 2**20)
    score = units.of_unit(float(best["score"]), "MB/s")
    number = units.counted(len(samples), "sample")
    what = f"best cycle time {cycle}, fusion threshold {threshold}"
    return f"{number}, {what}: {score}, line {best['line']}"


def throughput_facts(rows: pd.DataFrame) -> list[Fact]:
    """How many throughputs of a whole job there are, in how many series."""
    return [
        Fact("num_throughputs", "throughputs of the whole job", len(rows)),
        Fact("num_series", "throughput series", int(rows["series"].nunique())),
    ]


def recording_facts(steps: pd.DataFrame, ranks: pd.DataFrame) -> list[Fact]:
    """The recorder files of one launch."""
    steady = steps[~steps["warmup"]]
    median = float(steady["dur_ns"].median()) if len(steady) else None
    blocked = steady[steady["blocked_ns"].notna() & (steady["dur_ns"] > 0)]
    total = float(blocked["dur_ns"].sum())
    share = float(blocked["blocked_ns"].sum()) / total if total else None
    is_light = (steps["num_steps"] > 1).any()
    return [
        Fact("num_ranks", "ranks", len(ranks)),
        Fact("num_steps", "steps of all ranks", int(steps["num_steps"].sum())),
        Fact("step_median_ns", f"step, median{' of windows' if is_light else ''}", median, "ns"),
        Fact("blocked_share", "exposed communication (steady)", share, "ratio"),
        Fact("ended", "ended on their own", int(ranks["ended"].sum())),
    ]


def recording_unanswered(ranks: pd.DataFrame) -> Unanswered:
    """What the recorder files of one launch do not hold, and the command for its engine."""
    engines = [engine for engine in ranks["engine"].astype(str) if engine]
    return Unanswered(
        "how well the job scales (one launch has no baseline)",
        scaling_command(engines[0] if engines else ""),
    )


def _end_of(row: pd.Series) -> str:
    rank = ended_process(row.to_dict())
    if not pd.isna(row["signal"]):
        return f"{rank} by signal {row['signal']}"
    if not pd.isna(row["exit_code"]):
        return f"{rank} with exit code {row['exit_code']}"
    return rank


def nccl_run_facts(runs: pd.DataFrame) -> list[Fact]:
    """The runs of nccl-tests in a file: the facts of a single one, or a line for each."""
    facts = [Fact("num_runs", "runs of nccl-tests", len(runs))]
    if len(runs) > 1:
        lines = numbered_lines([_nccl_run(row) for row in runs.to_dict("records")])
        return [*facts, Fact("each_run", "run", lines)]
    (row,) = runs.to_dict("records")
    np, average = row["np"], float(row["avg_busbw_gb_s"])
    peak, size = float(row["peak_busbw_gb_s"]), whole_or_none(row["peak_size_bytes"])
    rounded, size = ("below 0.01 GB/s", None) if peak == 0 else ("", size)
    return [
        *facts,
        Fact("operation", "operation", str(row["operation"]) or None),
        Fact("num_ranks", "ranks", None if is_missing(np) else int(np)),
        Fact("device", "device", str(row["device"]) or None),
        Fact("avg_busbw_gb_s", "average over all sizes", average, "GB/s"),
        Fact("peak_busbw_gb_s", "peak bus bandwidth", peak, "GB/s", text=rounded),
        Fact("peak_size_bytes", "reached at", size, "bytes"),
        Fact("num_wrong", "wrong elements", whole_or_none(row["num_wrong"])),
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
    wrong = whole_or_none(row["num_wrong"])
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
        Fact("num_ranks", "ranks", whole_or_none(row["np"])),
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
