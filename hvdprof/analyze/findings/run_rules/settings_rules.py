"""Rules on how Horovod was set up: what is known to cost, from settings and from its own logs."""

from collections.abc import Iterator
from typing import Any

from hvdprof import units
from hvdprof.analyze.findings.evidence import Evidence, is_base
from hvdprof.analyze.findings.finding import Finding, severity_of_cost
from hvdprof.analyze.findings.nccl_rules.nccl_rule import ranks_text
from hvdprof.model.cell_key import place_name, short_name
from hvdprof.model.tables.session_tables import SESSION_RANKS
from hvdprof.model.tables.timeline_file_tables import TIMELINES
from hvdprof.rundir.attached import attached_files
from hvdprof.rundir.plan import HOROVOD_ENGINE

SMALL_FUSION_BYTES = 2**20
LONG_CYCLE_MS = 10.0
SLOW_TIMELINE = 0.2


def fusion_too_small(evidence: Evidence) -> Iterator[Finding]:
    """A fusion buffer that holds nothing."""
    text = evidence.setting("HOROVOD_FUSION_THRESHOLD")
    if text is not None and text.isdecimal() and int(text) < SMALL_FUSION_BYTES:
        what = "off" if text == "0" else f"limited to {units.byte_size(int(text))}"
        yield Finding(
            "fusion-too-small",
            "warning",
            "HOROVOD_FUSION_THRESHOLD",
            f"Tensor fusion is {what}, so small gradients are reduced one by one.",
            "unset HOROVOD_FUSION_THRESHOLD (its default is 128 MB)",
            "certain",
            evidence=f"HOROVOD_FUSION_THRESHOLD={text}",
        )


def cycle_too_long(evidence: Evidence) -> Iterator[Finding]:
    """A cycle time that delays every collective."""
    text = evidence.setting("HOROVOD_CYCLE_TIME") or ""
    if text.replace(".", "", 1).isdecimal() and float(text) >= LONG_CYCLE_MS:
        yield Finding(
            "cycle-too-long",
            "warning",
            "HOROVOD_CYCLE_TIME",
            f"Horovod looks for ready gradients every {text} ms only; each waits up to that long.",
            "unset HOROVOD_CYCLE_TIME (its default is 1 ms)",
            "certain",
            evidence=f"HOROVOD_CYCLE_TIME={text}",
        )


def cache_off(evidence: Evidence) -> Iterator[Finding]:
    """The response cache switched off in passes that measure throughput."""
    for record in evidence.run.manifest.passes:
        is_measured = record.mode == "throughput" and record.engine == HOROVOD_ENGINE
        if is_measured and record.environment.get("HOROVOD_CACHE_CAPACITY") == "0":
            yield Finding(
                "cache-off",
                "warning",
                "HOROVOD_CACHE_CAPACITY",
                "The response cache is off while throughput is measured: every tensor is "
                "negotiated anew in every step.",
                "unset HOROVOD_CACHE_CAPACITY",
                "certain",
                evidence="HOROVOD_CACHE_CAPACITY=0",
            )
            return


def autotune_active(evidence: Evidence) -> Iterator[Finding]:
    """Autotuning that changes settings while something is measured."""
    timelines = evidence.table(TIMELINES.name)
    tuned = timelines[timelines["autotuned"]] if len(timelines) else timelines
    unfinished = evidence.table("autotune")
    searching = len(unfinished) and not unfinished["final"].any()
    if len(tuned) or searching:
        where = str(tuned["pass_id"].iloc[0]) if len(tuned) else str(unfinished["file"].iloc[0])
        yield Finding(
            "autotune-active",
            "warning",
            where,
            "Horovod's autotuning was at work: its settings, and so the times of steps, changed "
            "while they were recorded.",
            "measure with HOROVOD_AUTOTUNE=0 and the values it found",
            "certain" if searching else "likely",
        )


def timeline_slows(evidence: Evidence) -> Iterator[Finding]:
    """A timeline that costs a lot, as on a slow or shared file system."""
    for cell in evidence.cells_of_horovod():
        low = cell["observer_cost_low"]
        if is_base(cell) and cell["observer_cost"] >= SLOW_TIMELINE and low > 0:
            share = cell["observer_cost"] / (1 + cell["observer_cost"])
            yield Finding(
                "timeline-slows",
                "warning",
                short_name(*_group(cell)),
                f"{place_name(*_group(cell))}: the pass with Horovod's timeline is "
                f"{units.percent(cell['observer_cost'])} slower than that without.",
                "write the timeline to a local disk or /dev/shm, and leave a core to its writer; "
                "never read throughput from a run with HOROVOD_TIMELINE",
                "certain",
                model=str(cell["model"]),
                np=int(cell["np"]),
                engine=str(cell["engine"]),
                cost_share=share,
            )


def stalled_tensors(evidence: Evidence) -> Iterator[Finding]:
    """Stalls that Horovod itself reported."""
    stalls = evidence.table("stalls")
    if stalls.empty:
        return
    # Horovod 0.13 and earlier list the ranks that were ready: these are waited with, not for.
    missing = stalls[(stalls["state"] != "ready").to_numpy()]
    ranks = sorted({int(rank) for rank in missing["stalled_rank"] if rank >= 0})
    where = f", missing on {ranks_text(ranks)}" if ranks else ""
    first = (stalls if missing.empty else missing).iloc[0]
    yield Finding(
        "stalled-tensors",
        "error" if stalls["shutdown"].any() else "warning",
        f"rank {ranks[0]}" if len(ranks) == 1 else "ranks",
        f"Horovod warned {_times(int(stalls['warning'].nunique()))} that tensors stalled{where}.",
        "look at what the missing rank did then: evaluation, a checkpoint, an exception, uneven "
        "numbers of batches (hvd.join())",
        "certain",
        file=str(first["file"]),
        line=int(first["line"]),
        evidence=f"waited for {first['tensor']}",
    )


def cache_evictions(evidence: Evidence) -> Iterator[Finding]:
    """Responses thrown out of Horovod's cache."""
    incidents = evidence.table("incidents")
    evicted = incidents[incidents["kind"].astype(str).str.contains("cache")]
    log = evidence.table("horovod_log")
    told = log[log["message"].astype(str).str.contains("evict|cache capacity", case=False)]
    rows = evicted if len(evicted) else told
    if len(rows):
        first = rows.iloc[0]
        yield Finding(
            "cache-evictions",
            "warning",
            "response cache",
            "Horovod's response cache overflows: tensors are negotiated anew.",
            "HOROVOD_CACHE_CAPACITY=4096, and the same names for the same tensors in every step",
            "certain",
            file=str(first["file"]),
            line=int(first["line"]),
            evidence=str(first["message"]),
        )


def fp16_without_gain(evidence: Evidence) -> Iterator[Finding]:
    """fp16 compression that makes the job slower."""
    remedy = "leave --fp16-allreduce out here: the casts cost more than the bytes save"
    yield from _toggle(evidence, "compression", "fp16", "fp16-costs", remedy)


def adasum_costs(evidence: Evidence) -> Iterator[Finding]:
    """Adasum that makes the job slower."""
    remedy = "leave --use-adasum out unless it needs clearly fewer steps to the same loss"
    yield from _toggle(evidence, "reduction", "adasum", "adasum-costs", remedy)


def oversubscribed(evidence: Evidence) -> Iterator[Finding]:
    """More ranks than cores or GPUs."""
    scaling = evidence.table("scaling")
    sizes = sorted({int(size) for size in scaling.loc[scaling["oversubscribed"], "np"]})
    if sizes:
        yield Finding(
            "oversubscribed",
            "note",
            "np=" + ",".join(map(str, sizes)),
            f"np={', '.join(map(str, sizes))}: more ranks than cores or GPUs, so ranks take turns.",
            "at most as many ranks as cores (or GPUs); these sizes say nothing about scaling",
            "certain",
        )


def same_hostname(evidence: Evidence) -> Iterator[Finding]:
    """Several ranks of one pass that claim the same place on the same host."""
    ranks = evidence.run.ranks
    # Elastic workers have the names of a discovery script, which may give one machine several.
    elastic = evidence.table(SESSION_RANKS.name)["pass_id"].astype(str).unique()
    ranks = ranks[~ranks["pass_id"].astype(str).isin(elastic).to_numpy()]
    places = ranks.groupby(["pass_id", "hostname", "local_rank"], observed=True).size()
    twice = places[places > 1]
    if len(twice):
        pass_id, host, local_rank = twice.index[0]
        yield Finding(
            "same-hostname",
            "warning",
            str(host),
            f"{pass_id}: {int(twice.iloc[0])} ranks are local rank {local_rank} on {host}: hosts "
            "with one name, or every task a job of its own.",
            "give every host its own name (HOROVOD_HOSTNAME), and check hvd.size(); under Slurm "
            "srun --mpi=pmix",
            "certain",
        )


def tail_lost(evidence: Evidence) -> Iterator[Finding]:
    """A timeline whose last operations have no end."""
    notes = [note for note in evidence.run.notes if "events never end" in note]
    if notes:
        yield Finding(
            "timeline-tail-lost",
            "note",
            "timeline",
            "The end of Horovod's timeline is missing: its last steps are not in the file.",
            "record with `collect.timeline(...)` or horovod.start_timeline/stop_timeline, which "
            "complete the file",
            "likely",
            evidence=notes[0],
        )


def no_rank_evidence(evidence: Evidence) -> Iterator[Finding]:
    """Ranks without recordings in a run that records them: who attached files has no recorder."""
    if attached_files(evidence.run.manifest):
        return
    lacking = evidence.run.segments
    lacking = lacking[
        (lacking["status"] == "done") & (lacking["num_ranks_recorded"] < lacking["size"])
    ]
    if len(lacking):
        first = lacking.iloc[0]
        yield Finding(
            "no-rank-evidence",
            "warning",
            str(first["pass_id"]),
            f"{first['pass_id']}: {first['num_ranks_recorded']} of {first['size']} ranks were "
            "recorded; a late rank cannot be named there.",
            "pass HVDPROF_RECORDER_DIR on to every rank, on a folder that all hosts share",
            "certain",
        )


def _toggle(
    evidence: Evidence, column: str, value: str, identity: str, remedy: str
) -> Iterator[Finding]:
    cells = evidence.cells()
    base = {_group(cell): cell for cell in cells if is_base(cell)}
    other = "reduction" if column == "compression" else "compression"
    for cell in cells:
        against = base.get(_group(cell))
        plain = "average" if other == "reduction" else "none"
        if against is None or cell[column] != value or cell[other] != plain:
            continue
        if cell["samples_per_s_high"] < against["samples_per_s_low"]:
            lost = 1 - cell["samples_per_s"] / against["samples_per_s"]
            yield Finding(
                identity,
                severity_of_cost(lost),
                short_name(*_group(cell)),
                f"{place_name(*_group(cell))}: {value} makes it {units.percent(lost)} "
                f"slower ({units.rate(cell['samples_per_s'])} against "
                f"{units.rate(against['samples_per_s'])} samples/s).",
                remedy,
                "certain",
                model=str(cell["model"]),
                np=int(cell["np"]),
                engine=str(cell["engine"]),
                cost_share=lost,
                cost_ns=lost * float(cell["step_time_median_ns"]),
            )


def _group(cell: dict[str, Any]) -> tuple[str, int, str]:
    return str(cell["model"]), int(cell["np"]), str(cell["engine"])


def _times(number: int) -> str:
    return "once" if number == 1 else f"{units.count(number)} times"
