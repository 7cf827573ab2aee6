"""Verdicts and facts of DeepSpeed's comms logger and of Megatron's output."""

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.next_recording import torch_recording_command
from hvdprof.analyze.files.timer_verdict import deepspeed_step, steady_timers, timer_verdict
from hvdprof.model.file_page import Fact, FileVerdict, Gravity, Unanswered

_MOST_LINES = 8
_EVEN = 0.95
"""Ranks whose throughputs differ by less have no straggler: reports vary by some percent."""
_METRICS = {
    "Rtt": "forward time (Rtt)",
    "DRtt": "data time (DRtt)",
    "Pwr": "GPU power (Pwr)",
    "Tmp": "GPU temperature (Tmp)",
    "Utl": "GPU utilization (Utl)",
    "Clk": "GPU clock (Clk)",
    "Etpt": "estimated throughput (Etpt)",
}
"""What Megatron's abbreviations stand for."""
_SHOWN_UNITS = {"TF": "TFLOP/s"}
_MOST_WATTS = 10_000
"""No GPU draws more: Megatron prints the milliwatts of torch.cuda.power_draw as W."""
_SYNCHRONISED = "The comms logger synchronises every call: nothing overlaps while it logs."


def comms_verdict(rows: pd.DataFrame) -> FileVerdict:
    """The operation and size with the most time; empty without a comms log."""
    groups = _by_size(rows)
    if groups.empty:
        return FileVerdict("")
    top = groups.iloc[0].to_dict()
    share = float(top["total_ns"]) / max(float(groups["total_ns"].sum()), 1.0)
    return FileVerdict(
        f"{top['operation']} of {units.byte_size(top['size_bytes'])} takes {units.percent(share)} "
        f"of the logged time in collectives; mean bus bandwidth "
        f"{units.of_unit(float(top['busbw_gb_s']), 'GB/s')}.",
        _SYNCHRONISED,
    )


def comms_facts(rows: pd.DataFrame) -> list[Fact]:
    """Number of calls and a line for each operation and size."""
    groups = _by_size(rows)
    lines = [
        f"{row['operation']} {units.byte_size(row['size_bytes'])}: "
        f"{units.counted(int(row['number']), 'call')}, "
        f"total {units.milliseconds(float(row['total_ns']))}, "
        f"{units.of_unit(float(row['busbw_gb_s']), 'GB/s')}"
        for row in groups.head(_MOST_LINES).to_dict("records")
    ]
    if more := len(groups) - len(lines):
        lines.append(f"and {units.counted(more, 'size')} more")
    return [
        Fact("num_collectives", "collectives logged", int(groups["number"].sum())),
        Fact("each_size", "by size: time, bus bandwidth", "\n".join(lines)),
    ]


def training_verdict(
    iterations: pd.DataFrame, timers: pd.DataFrame, reports: pd.DataFrame
) -> FileVerdict:
    """The length of an iteration, then which ranks are slow, by timers or straggler reports.

    Args:
        iterations: Rows of TRAINING_ITERATIONS of one file.
        timers: Its rows of RANK_TIMERS.
        reports: Its rows of STRAGGLER_REPORTS.
    """
    number = _iterations_verdict(iterations)
    by_timers, by_reports = timer_verdict(timers, iterations), _straggler_verdict(reports)
    # Reports name a rank in each line, timers only where those of all ranks are printed.
    who = by_reports if by_reports.sentence else by_timers
    parts = [part for part in (number, who) if part.sentence]
    return FileVerdict(
        " ".join(part.sentence for part in parts),
        " ".join(part.caveat for part in reversed(parts) if part.caveat),
        min((part.gravity for part in parts), default=Gravity.NONE),
    )


def _iterations_verdict(rows: pd.DataFrame) -> FileVerdict:
    """Median length of an iteration without the first line; empty without a second one."""
    steady = rows.iloc[1:]
    if steady.empty:
        return FileVerdict("")
    step = float(steady["step_ns"].median())
    tflops = float(steady["tflops_per_gpu"].median())
    rate = (steady["global_batch_size"] * 1e9 / steady["step_ns"]).dropna()
    middle = "median " if len(steady) > 1 else ""
    parts = [f"Iteration: {middle}{units.milliseconds(step)}"]
    if len(rate):
        parts.append(units.of_unit(float(rate.median()), "samples/s"))
    if tflops == tflops:
        parts.append(f"{tflops:.1f} TFLOP/s per GPU")
    if len(steady) == 1:
        parts.append("in the one line after the first")
    return FileVerdict(
        f"{', '.join(parts)}.",
        "One log has no baseline: give the logs of several rank counts together for scaling.",
    )


def iteration_facts(rows: pd.DataFrame) -> list[Fact]:
    """Number and length of iterations, ranks and batch size."""
    # The first line holds start-up and compilation.
    median = float((rows.iloc[1:] if len(rows) > 1 else rows)["step_ns"].median())
    np, batch = rows["np"].dropna(), rows["global_batch_size"].dropna()
    return [
        Fact("num_iteration_lines", "lines on iterations", len(rows)),
        Fact("num_ranks", "ranks", int(np.iloc[-1]) if len(np) else None),
        Fact("global_batch_size", "global batch size", int(batch.iloc[-1]) if len(batch) else None),
        Fact("iteration_median_ns", "iteration, median", median, "ns"),
    ]


def timer_facts(rows: pd.DataFrame) -> list[Fact]:
    """The timers with the largest difference between ranks."""
    known = steady_timers(rows.dropna(subset=["min_ns"]))
    if known.empty:
        return []
    spread = (known["max_ns"] - known["min_ns"]).astype("int64")
    groups = (
        known.assign(spread_ns=spread)
        .groupby("timer", observed=True)
        .agg(
            spread_ns=("spread_ns", "median"),
            max_ns=("max_ns", "median"),
            ranks=("num_ranks", "max"),
        )
        .sort_values(["spread_ns", "max_ns"], ascending=False, kind="stable")
    )
    lines = [
        f"{timer}: {units.milliseconds(float(row['max_ns']))} on the rank that prints"
        if row["ranks"] == 1
        else f"{timer}: {units.milliseconds(float(row['spread_ns']))} between the fastest and the "
        f"slowest rank, slowest {units.milliseconds(float(row['max_ns']))}"
        for timer, row in groups.head(_MOST_LINES).fillna({"ranks": 0}).iterrows()
    ]
    facts = [Fact("each_timer", "timers, medians", "\n".join(lines))]
    if (step := deepspeed_step(rows)) is not None:
        share = step["bwd_allreduce"] / step["total"]
        facts.append(Fact("allreduce_share", "bwd_allreduce of a step", share, "ratio"))
    return facts


def _straggler_verdict(rows: pd.DataFrame) -> FileVerdict:
    """The rank with the lowest estimated throughput most often; empty where ranks hardly differ."""
    lowest = rows[((rows["metric"] == "Etpt") & (rows["extreme"] == "min")).to_numpy()]
    highest = rows[((rows["metric"] == "Etpt") & (rows["extreme"] == "max")).to_numpy()]
    if lowest.empty or highest.empty:
        return FileVerdict("")
    rank = int(lowest["rank"].mode().iloc[0])
    number = int((lowest["rank"] == rank).sum())
    low, high = float(lowest["value"].median()), float(highest["value"].median())
    if low > _EVEN * high:
        return FileVerdict("")
    return FileVerdict(
        f"Rank {rank} has the lowest estimated throughput in {number} of {len(lowest)} reports; "
        f"medians {low:.1f} TFLOP/s lowest, {high:.1f} TFLOP/s highest "
        f"({units.percent(1 - low / high)} less).",
        gravity=Gravity.WARNING,
    )


def straggler_facts(rows: pd.DataFrame) -> list[Fact]:
    """The rank that is most often extreme in each metric."""
    lines = []
    for (metric, extreme), members in rows.groupby(["metric", "extreme"], observed=True):
        rank = int(members["rank"].mode().iloc[0])
        number = int((members["rank"] == rank).sum())
        value = _metric_value(float(members["value"].median()), str(members["unit"].iloc[0]))
        lines.append(
            f"{extreme} {_METRICS[str(metric)]}: median {value}, rank {rank} in {number} of "
            f"{units.counted(len(members), 'report')}"
        )
    return [Fact("each_extreme", "Megatron's straggler reports", "\n".join(lines))]


def _metric_value(value: float, unit: str) -> str:
    if unit == "W" and value > _MOST_WATTS:
        value = round(value / 1000, 1)
    return f"{value:g} {_SHOWN_UNITS.get(unit, unit)}"


def comms_unanswered(rows: pd.DataFrame) -> tuple[Unanswered, ...]:
    """What a comms log does not hold."""
    question = "who waits for whom, and what overlaps (every call is synchronised)"
    return () if rows.empty else (Unanswered(question, torch_recording_command(None)),)


def iterations_unanswered(rows: pd.DataFrame) -> tuple[Unanswered, ...]:
    """What lines on iterations do not hold."""
    question = "which rank the others wait for, and in which collective"
    known = rows["np"].dropna()
    size = int(known.iloc[-1]) if len(known) else None
    return () if rows.empty else (Unanswered(question, torch_recording_command(size)),)


def _by_size(rows: pd.DataFrame) -> pd.DataFrame:
    """Time and mean bus bandwidth by operation and size, of the last summary where there is one."""
    summaries = rows["summary"].dropna()
    chosen = rows[rows["summary"].eq(summaries.max()).fillna(False)] if len(summaries) else rows
    weighted = chosen.assign(weight=chosen["busbw_gb_s"] * chosen["number"])
    groups = weighted.groupby(["operation", "size_bytes"], observed=True).agg(
        number=("number", "sum"), total_ns=("total_ns", "sum"), weight=("weight", "sum")
    )
    groups["busbw_gb_s"] = groups["weight"] / groups["number"].clip(lower=1)
    return groups.sort_values("total_ns", ascending=False, kind="stable").reset_index()
