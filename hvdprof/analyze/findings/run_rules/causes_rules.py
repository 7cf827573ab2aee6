"""Rules on where the time of a step goes: jitter, compute slowdown, sizes.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

import itertools
import math
from collections.abc import Iterator

from hvdprof import units
from hvdprof.analyze.findings.advice import (
    END_OTHER_PROCESSES,
    FREE_CORES,
    Advice,
    advice,
    in_turn,
    sentences,
)
from hvdprof.analyze.findings.cause_advice import explains
from hvdprof.analyze.findings.cell_finding import (
    CostlyCause,
    cell_name,
    cell_place,
    cost_of,
    costly_causes,
    step_ns,
)
from hvdprof.analyze.findings.evidence import Cell, Evidence, is_base
from hvdprof.analyze.findings.finding import Finding, severity_of_cost
from hvdprof.analyze.findings.gpu_advice import NCCL, own_gpu, sharing
from hvdprof.analyze.findings.line_evidence import line_evidence
from hvdprof.analyze.findings.machine_evidence import MOST_NOT, cores_of_ranks
from hvdprof.analyze.findings.uneven_batches import sizes_within_steps
from hvdprof.analyze.ranks.stragglers import ROTATING
from hvdprof.analyze.steps.cell_setting import CellSetting, cell_setting
from hvdprof.analyze.steps.other_load import BUSY_CORES
from hvdprof.model.cause_names import within
from hvdprof.model.causes import COMPUTE_INFLATION, JITTER
from hvdprof.model.cell_key import keeps_batches
from hvdprof.model.tables.waiting_tables import STRAGGLERS

FEWEST_STEPS_OF_JITTER = 8
"""With fewer steps, one or two long ones pass for a slowest rank that changes."""

_ON_ONE_RANK = advice(
    "look for what only rank {rank} does in no phase: logging, checkpoints, evaluation",
    "Do it less often.",
)

_BESIDE = (
    "Run `pidstat 1` and `iostat -x 1` on the hosts during the job, to find other processes and "
    "slow storage."
)
_EVEN_OUT = advice(
    "pin ranks to cores and even out the work per sample",
    _BESIDE,
    command="pidstat 1",
    first="Pin ranks to cores and even out the work per sample (bucket by length, equal shards).",
)

CROWDED = 0.2
"""Share of the time without a core from which on it is the first thing to change."""

_OWN_CROWD = f"Other processes used at most {BUSY_CORES} cores in each launch."
_OWN_THREADS = advice(
    "run fewer ranks, threads or workers per host than it has cores",
    "Threads that communicate compete with them.",
)

_EVEN_WORK = advice("even out the work per sample (bucket by length, equal shards)")
_EVEN_OUT_PINNED = advice(_EVEN_WORK.fix, _BESIDE, command="pidstat 1")

_LATE_IN = {
    "data": advice(
        "look for what differs in the data loading of rank {rank}: its samples, its disk, the "
        "processes on its host",
        "With few DataLoader workers a slow sample empties the queue in some steps only.",
    ),
    "outside": _ON_ONE_RANK,
}


_TITLES = ("jitter (no rank proven slower)", "rotating stragglers (jitter)")

_EVIDENCE = ("None is proven to be slower.", "No rank has 80 % of that.")
"""Of jitter that may be one rank's, and of jitter that is of several."""


def jitter(evidence: Evidence) -> Iterator[Finding]:
    """The ranks differ from step to step, or most of it is one rank without a name."""
    for cause in costly_causes(evidence, JITTER):
        if cause.cell["num_steps"] < FEWEST_STEPS_OF_JITTER:
            continue
        setting = cell_setting(evidence.run, cause.cell)
        crowded = explains(setting.load, cause.row)
        late, phase = str(cause.row["ranks"]), str(cause.row["phase"])
        sizes = sizes_within_steps(evidence, cause.cell)
        patterns = evidence.rows_of(evidence.table(STRAGGLERS.name), cause.cell)["pattern"]
        without_core = cores_of_ranks(evidence, cause.cell)
        rotates = not late and bool((patterns == ROTATING).any())
        alone = setting.num_hosts == 1 and setting.load.is_idle
        yield Finding(
            "rotating-stragglers",
            severity_of_cost(cause.share),
            cell_name(cause.cell),
            (f"jitter, most of it of rank {late}" if late else _TITLES[rotates]),
            sentences(
                f"{cell_place(cause.cell)}: "
                + (
                    f"most of the jitter is time of rank {late}{within(phase) if phase else ''}"
                    if late
                    else "the ranks differ from step to step"
                )
                + f", which costs {cause.share_text} of the step.",
                "" if late else _EVIDENCE[rotates],
                sizes,
                _of_cores(without_core, cause.share),
                _OWN_CROWD * (alone and without_core >= CROWDED),
                "Stragglers and pauses that have a finding of their own are not in it.",
            ),
            _LATE_IN[phase].formatted(rank=late)
            if phase in _LATE_IN
            else _even_out(without_core, cause, alone=alone),
            "possible" if crowded else "likely",
            **cause.cost,
        )


def _of_cores(without_core: float, cost: float) -> str:
    """What samples show of the cores of the ranks; empty without any."""
    if math.isnan(without_core):
        return ""
    share = units.percent(without_core, 0)
    text = f"The ranks had no core for {share} of the time in which they could run"
    return (
        f"{text}: other processes are not the cause."
        if without_core < MOST_NOT * cost
        else f"{text}."
    )


def _even_out(without_core: float, cause: CostlyCause, *, alone: bool) -> Advice:
    if without_core < MOST_NOT * cause.share:
        return _EVEN_WORK
    if without_core >= CROWDED:
        return _OWN_THREADS if alone else FREE_CORES
    return _EVEN_OUT_PINNED if cause.cell["pinned"] else _EVEN_OUT


def compute_inflation(evidence: Evidence) -> Iterator[Finding]:
    """The ranks compute for longer than in the baseline."""
    for term in costly_causes(evidence, COMPUTE_INFLATION):
        cell = term.cell
        setting = cell_setting(evidence.run, cell)
        is_weak = keeps_batches(evidence.table("scaling"), str(cell["model"]))
        lines = line_evidence(evidence, term)
        reference = "in the baseline" if is_weak else "the baseline needs for as many samples"
        yield Finding(
            "compute-inflation",
            severity_of_cost(term.share),
            cell_name(cell),
            "compute slowdown against the baseline",
            sentences(
                f"{cell_place(cell)}: compute takes {units.milliseconds(term.cost_ns)} more per "
                f"step than {reference}, {term.share_text} of the step.",
                sharing(setting),
                lines.sentence,
            ),
            in_turn(_why_slower(term, setting), lines.fix),
            "possible" if explains(setting.load, term.row) else "likely",
            **cost_of(cell, term.share, term.cost_ns, cause_id=term.cause_id),
            **lines.columns,
        )


_COMPARE_CLOCKS = advice(
    "run `nvidia-smi -q -d CLOCK,POWER` during this job and during one rank alone, and compare",
    command="nvidia-smi -q -d CLOCK,POWER",
)
_FEWER_SMS = Advice(
    "If clocks are equal, set NCCL_MAX_CTAS=8 and measure again: kernels of NCCL occupy SMs."
)
_CORES_COMPUTE = (
    "Every core computes, and threads that communicate compete with them. A slowdown that stays is "
    "due to memory bandwidth and caches, which the ranks of a host share."
)
_FEWER_RANKS = advice("run fewer ranks per host than it has cores", _CORES_COMPUTE)
_FEWER_THREADS = advice("set a smaller OMP_NUM_THREADS or run fewer ranks per host", _CORES_COMPUTE)
_OWN_CORES = advice(
    "set OMP_NUM_THREADS to the number of cores per rank and pin every rank to its own cores",
    "Ranks of a host also share memory bandwidth and caches. Compare with as many ranks on more "
    "hosts.",
)


def _why_slower(term: CostlyCause, setting: CellSetting) -> Advice:
    """What to do about a compute slowdown, by where the ranks ran."""
    if setting.gpu_crowd:
        return own_gpu(setting, str(term.cell["engine"]))
    if explains(setting.load, term.row):
        return END_OTHER_PROCESSES
    if setting.on_gpus:
        return in_turn(_COMPARE_CLOCKS, _FEWER_SMS if setting.backend == NCCL else Advice())
    if setting.every_core_computes:
        return _FEWER_RANKS if setting.one_thread else _FEWER_THREADS
    return _OWN_CORES


_COMPARE_SIZES = advice(
    "run `{measure} --hosts` on one host and on two, and compare",
    "Look for what changes at this size: a second host, another socket, another switch.",
    command="{measure} --hosts",
)


def size_cliff(evidence: Evidence) -> Iterator[Finding]:
    """Efficiency that falls far more from one size to the next than it did before."""
    base = [cell for cell in evidence.cells() if is_base(cell)]
    sizes: dict[tuple[object, object], list[Cell]] = {}
    for cell in sorted(base, key=lambda cell: int(cell["np"])):
        sizes.setdefault((cell["model"], cell["engine"]), []).append(cell)
    for cells in sizes.values():
        for before, after in itertools.pairwise(cell for cell in cells if cell["np"] > 0):
            lost = before["efficiency"] - after["efficiency"]
            if before["np"] < 2 or not (
                lost >= 0.1 and after["efficiency_high"] < before["efficiency_low"]
            ):
                continue
            # Of the step, not of the baseline's: the time that the smaller size would have taken.
            share = lost / before["efficiency"]
            yield Finding(
                "size-cliff",
                severity_of_cost(share),
                cell_name(after),
                f"efficiency cliff at np={after['np']}",
                f"{cell_place(after)}: efficiency falls to {_efficiency(after)}, from "
                f"{_efficiency(before)} at np={before['np']}.",
                _COMPARE_SIZES.formatted(measure=evidence.measure),
                "possible",
                **cost_of(after, share, share * step_ns(after)),
            )


def _efficiency(row: Cell) -> str:
    ends = (float(row[f"efficiency{end}"]) for end in ("", "_low", "_high"))
    return units.percent_interval(*ends)
