"""Rules on how Horovod was set up: what is known to cost, from settings and from its own logs.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

from collections.abc import Iterator

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice, set_to, unset
from hvdprof.analyze.findings.cell_finding import cell_name, cell_place, cost_of, step_ns
from hvdprof.analyze.findings.evidence import Cell, Evidence, is_base
from hvdprof.analyze.findings.finding import Finding, severity_of_cost
from hvdprof.model.cell_key import ranks_lacking
from hvdprof.model.notes import NoteCode
from hvdprof.model.tables.timeline_tables import TIMELINES
from hvdprof.model.tables.window_tables import SESSION_RANKS
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
            f"tensor fusion {what}",
            f"Tensor fusion is {what}, so Horovod reduces small gradients one by one.",
            unset("HOROVOD_FUSION_THRESHOLD", default="default: 128 MB"),
            "certain",
            quote=f"HOROVOD_FUSION_THRESHOLD={text}",
        )


def cycle_too_long(evidence: Evidence) -> Iterator[Finding]:
    """A cycle time that delays every collective."""
    text = evidence.setting("HOROVOD_CYCLE_TIME") or ""
    if text.replace(".", "", 1).isdecimal() and float(text) >= LONG_CYCLE_MS:
        yield Finding(
            "cycle-too-long",
            "warning",
            "HOROVOD_CYCLE_TIME",
            "long Horovod cycle",
            f"Horovod looks for ready gradients only every {text} ms. Each gradient waits up to "
            "that long.",
            unset("HOROVOD_CYCLE_TIME", default="default: 1 ms"),
            "certain",
            quote=f"HOROVOD_CYCLE_TIME={text}",
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
                "response cache off during throughput passes",
                "The response cache is off while throughput is measured. Horovod negotiates every "
                "tensor anew in every step.",
                unset("HOROVOD_CACHE_CAPACITY"),
                "certain",
                quote="HOROVOD_CACHE_CAPACITY=0",
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
            "autotuning during the recording",
            "Horovod's autotuning changed its settings, and so the step times, during the "
            "recording.",
            set_to(
                "HOROVOD_AUTOTUNE=0", " and the values that autotuning found, then measure again"
            ),
            "certain" if searching else "likely",
        )


def timeline_slows(evidence: Evidence) -> Iterator[Finding]:
    """A timeline that costs a lot, as on a slow or shared file system."""
    for cell in evidence.cells_of_horovod():
        ends = [float(cell[f"trace_overhead{end}"]) for end in ("", "_low", "_high")]
        is_slower = ends[0] >= SLOW_TIMELINE and ends[1] > 0 and not units.says_nothing(*ends)
        if is_base(cell) and is_slower:
            share = ends[0] / (1 + ends[0])
            yield Finding(
                "timeline-slows",
                "warning",
                cell_name(cell),
                "Horovod's timeline slows the job",
                f"{cell_place(cell)}: the pass with Horovod's timeline is "
                f"{_trace_overhead_text(cell)} slower than the pass without.",
                advice(
                    "write the timeline to a local disk or /dev/shm, and reserve a core for its "
                    "writer",
                    "Never read throughput from a run with HOROVOD_TIMELINE.",
                ),
                "certain",
                **cost_of(cell, share),
            )


def cache_evictions(evidence: Evidence) -> Iterator[Finding]:
    """Responses thrown out of Horovod's cache."""
    incidents = evidence.table("incidents")
    evicted = incidents[incidents["kind"].astype(str).str.contains("cache")]
    log = evidence.table("horovod_log")
    logged = log[log["message"].astype(str).str.contains("evict|cache capacity", case=False)]
    rows = evicted if len(evicted) else logged
    if len(rows):
        first = rows.iloc[0]
        yield Finding(
            "cache-evictions",
            "warning",
            "response cache",
            "response cache overflow",
            "Horovod's response cache overflows, so Horovod negotiates tensors anew.",
            set_to(
                "HOROVOD_CACHE_CAPACITY=4096",
                ", and use the same names for the same tensors in every step",
            ),
            "certain",
            file=str(first["file"]),
            line=int(first["line"]),
            quote=str(first["message"]),
        )


def fp16_without_gain(evidence: Evidence) -> Iterator[Finding]:
    """fp16 compression that makes the job slower."""
    yield from _toggle(
        evidence,
        ("compression", "fp16"),
        "fp16-costs",
        "compression to fp16 slower than none",
        advice("omit --fp16-allreduce", "Here the casts cost more than the smaller messages save."),
    )


def adasum_costs(evidence: Evidence) -> Iterator[Finding]:
    """Adasum that makes the job slower."""
    yield from _toggle(
        evidence,
        ("reduction", "adasum"),
        "adasum-costs",
        "Adasum slower than averaging",
        advice("omit --use-adasum, unless it needs clearly fewer steps to the same loss"),
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
            "several ranks with one place",
            f"{pass_id}: {int(twice.iloc[0])} ranks are local rank {local_rank} on {host}. Either "
            "several hosts have this name, or every task is a job by itself.",
            advice(
                "set HOROVOD_HOSTNAME to a different name on every host, and check hvd.size()",
                "Under Slurm, use `srun --mpi=pmix`.",
                command="srun --mpi=pmix",
            ),
            "certain",
            detail=str(host),
        )


def tail_lost(evidence: Evidence) -> Iterator[Finding]:
    """A timeline whose last operations have no end."""
    notes = [note for note in evidence.run.notes if note.code == NoteCode.NEVER_END]
    if notes:
        yield Finding(
            "timeline-tail-lost",
            "note",
            "timeline",
            "incomplete end of Horovod's timeline",
            "The end of Horovod's timeline is missing. Its last steps are not in the file.",
            advice(
                "record with `collect.timeline(...)` or with horovod.start_timeline and "
                "stop_timeline, which complete the file"
            ),
            "likely",
            quote=notes[0].text,
        )


def no_rank_evidence(evidence: Evidence) -> Iterator[Finding]:
    """Ranks without recordings in a run that records them; attached files have no recorder."""
    if attached_files(evidence.run.manifest):
        return
    lacking = evidence.run.segments
    lacking = lacking[(lacking["status"] == "done").to_numpy() & ranks_lacking(lacking)]
    if len(lacking):
        first = lacking.iloc[0]
        yield Finding(
            "no-rank-evidence",
            "warning",
            str(first["pass_id"]),
            "ranks without a recording",
            f"{first['pass_id']}: {first['num_ranks_recorded']} of {first['size']} ranks were "
            "recorded. No straggler can be named there.",
            advice(
                "copy the run directory whole",
                "Where ranks wrote no file there, pass HVDPROF_RECORDER_DIR to every rank, and "
                "set it to a folder that all hosts share.",
            ),
            "certain",
        )


def _toggle(
    evidence: Evidence, toggle: tuple[str, str], rule: str, title: str, action: Advice
) -> Iterator[Finding]:
    """The finding on cells that a value of a column of SCALING slows."""
    column, value = toggle
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
                rule,
                severity_of_cost(lost),
                cell_name(cell),
                title,
                f"{cell_place(cell)}: throughput with {value} is "
                f"{units.percent(lost)} lower: {_rate(cell)} against {_rate(against)} samples/s.",
                action,
                "certain",
                **cost_of(cell, lost, lost * step_ns(cell)),
            )


def _group(cell: Cell) -> tuple[str, int, str]:
    return str(cell["model"]), int(cell["np"]), str(cell["engine"])


def _rate(cell: Cell) -> str:
    ends = (float(cell[f"samples_per_s{end}"]) for end in ("", "_low", "_high"))
    return units.rate_interval(*ends)


def _trace_overhead_text(cell: Cell) -> str:
    ends = (float(cell[f"trace_overhead{end}"]) for end in ("", "_low", "_high"))
    return units.percent_interval(*ends)
