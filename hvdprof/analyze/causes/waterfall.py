"""The waterfall of a cell: what makes up its lost time, by cause."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hvdprof.analyze.causes.cell_causes import CellCause, of_each_script
from hvdprof.analyze.causes.cell_split import UNKNOWN, CellSplit, TransferSplit, cell_split
from hvdprof.analyze.causes.launch_causes import COMPUTE, DATA, OUTSIDE, LaunchCauses
from hvdprof.analyze.ranks.named_cause import FALSE_ALARMS, NamedCause
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.scaling.efficiency import in_order, samples_per_rank
from hvdprof.analyze.stats.uncertainty import NAN, LogEstimate, Spread, less, spread
from hvdprof.analyze.stats.uncertainty import times as scaled
from hvdprof.analyze.steps.cells import Cell, CellTime, throughput_cells
from hvdprof.analyze.steps.measured_launches import Facts
from hvdprof.analyze.steps.step_time_ratio import PairedRatios, baselines
from hvdprof.model.causes import (
    BASELINE_CREDIT,
    COMPUTE_INFLATION,
    EXPOSED_TRANSFER,
    INPUT_BOUND,
    JITTER,
    OUTSIDE_PHASES,
    RESIDUAL_TERM,
    cause_id,
)
from hvdprof.model.cell_key import LaunchKey
from hvdprof.model.tables.waterfall_tables import OPEN, SEEN, SURE, WATERFALL

ROUNDING = 1e-9
"""Shares of a step below this are rounding errors of floating-point sums."""


@dataclass(frozen=True, slots=True)
class _Term:
    """A term as a share of the step, the share that its removal alone saves, and the baseline's.

    ``ranks`` are those that most of it lies on, and ``phase`` where; empty where it is that of all.
    ``chance`` is that of equal ranks to give any of them as much.
    """

    share: Spread
    saved_if_removed: float
    of_baseline: float = NAN
    ranks: str = ""
    phase: str = ""
    chance: float = NAN


def waterfall(
    times: Mapping[Cell, CellTime],
    launches: Mapping[LaunchKey, RankTimes],
    named: Mapping[LaunchKey, Sequence[NamedCause]],
    facts: Facts,
    splits: Mapping[Cell, TransferSplit],
) -> pd.DataFrame:
    """WATERFALL of every cell in throughput mode but plain torch.

    With T the step time, C and D the compute (forward, backward, optimizer) and data time of the
    normal ranks, O their time outside all phases, 1 the baseline and w the samples per rank and
    step divided by those of the baseline:

        T = C + D + O + named causes + jitter + exposed transfer       (``launch_causes``)

        input               D - w * D_1
        outside             O - w * O_1
        compute slowdown    C - w * C_1
        baseline credit     - w * (T_1 - C_1 - D_1 - O_1)

    Parts of the normal ranks are what they share (``ranks.account``). Where the input queues of
    most ranks run empty, ``input`` has the cost of these waits as well: what the replayed steps
    lose without them.

    Pauses of the baseline are in its credit, since steps in which it pauses are not normal.
    Together the terms are ``T - w * T_1``, and ``residual`` is the rounding error. Cells without
    another cell as baseline have neither compute slowdown nor credit, and their input and
    time outside are whole (``D``, ``O``): their terms are ``T - C``. Cells without phases have
    named causes, jitter and exposed transfer alone.

    Every term is a mean over launches of its share in the launch's step times the step time of the
    cell.

    Args:
        times: The step time of each cell.
        launches: The own times of each launch.
        named: The named causes of each launch, largest first.
        facts: The parts of the step and other facts of each launch.
        splits: What exposed transfer consists of, where launches in trace mode show it.
    """
    cells = throughput_cells(times)
    baseline_of = baselines(cells)
    ratios = PairedRatios(cells, baseline_of)
    causes = {time.cell: cell_split(time, launches, named) for time in cells}
    periodic = of_each_script({cell: (one.named, one.times) for cell, one in causes.items()})
    causes = {cell: replace(one, named=periodic[cell]) for cell, one in causes.items()}
    rows: list[dict[str, object]] = []
    for time in in_order(cells):
        own, baseline = causes[time.cell], baseline_of.get(time.cell.model)
        if time.cell.is_plain_torch or not own.launches:
            continue
        reference = None
        if baseline is not None and baseline.cell != time.cell and own.has_phases:
            of_baseline = causes[baseline.cell]
            if of_baseline.launches and of_baseline.has_phases:
                work = samples_per_rank(time, facts) / samples_per_rank(baseline, facts)
                reference = _reference(ratios.ratio(baseline, time), of_baseline, work)
        own_rows = _rows(time, own, reference)
        for row in own_rows:
            if row["term"] == EXPOSED_TRANSFER:
                split = splits.get(time.cell, UNKNOWN).of(float(str(row["time_ns"])))
                row |= {
                    "executing_share": split.executing,
                    "copying_share": split.copying,
                    "traced_ns": split.traced_ns,
                }
        rows += own_rows
    return WATERFALL.frame(rows)


@dataclass(frozen=True, slots=True)
class _Reference:
    """The baseline's step for as many samples, and parts of it, as shares of the cell's step."""

    step: float
    parts: Mapping[str, Spread]
    rest: Spread


def _reference(ratio: LogEstimate, of_baseline: CellSplit, work: float) -> _Reference:
    """From the logarithm of the baseline's step time divided by the cell's."""
    step = work * math.exp(ratio.value)
    rest = spread([1.0 - sum(map(launch.part, launch.normal)) for launch in of_baseline.launches])
    return _Reference(
        step=step,
        parts={
            part: _with_error_of(ratio, step, of_baseline.part(part))
            for part in (DATA, OUTSIDE, COMPUTE)
        },
        rest=_with_error_of(ratio, step, rest),
    )


def _with_error_of(ratio: LogEstimate, base_time: float, share: Spread) -> Spread:
    """A share of the baseline's step as a share of the cell's, whose ratio is not exact either."""
    exact = scaled(base_time, share)
    variance = exact.variance + (exact.value * ratio.error) ** 2
    return Spread(exact.value, variance, min(exact.degrees, ratio.degrees))


def _rows(time: CellTime, own: CellSplit, reference: _Reference | None) -> list[dict[str, object]]:
    launches = own.launches
    step_ns = math.exp(time.log_step_time.value)
    named = [
        (
            cause,
            number,
            _Term(
                spread([launch.named[number].share for launch in launches]),
                float(np.mean([launch.named[number].saved_if_removed for launch in launches])),
            ),
        )
        for number, cause in enumerate(own.named)
    ]
    named.sort(key=lambda entry: -entry[2].share.value)
    others = _other_terms(own, reference)
    whole = 1.0 - (
        float(np.mean([_useful(launch) for launch in launches]))
        if reference is None
        else reference.step
    )
    rest = whole - sum(term.share.value for *_, term in named)
    rest -= sum(term.share.value for term in others.values())
    # A sum of floats that should be 0 would be shown as -0.0 %.
    rest = 0.0 if abs(rest) < ROUNDING else rest
    others[RESIDUAL_TERM] = _Term(Spread(rest, NAN, 0.0), NAN)
    rows = [
        _row(time.cell, cause.kind, term, step_ns) | _named(cause, number, launches)
        for cause, number, term in named
    ]
    return rows + [
        _row(time.cell, name, term, step_ns)
        | _UNNAMED
        | {"ranks": term.ranks, "phase": term.phase, "cause_id": cause_id(name, term.ranks)}
        | ({"chance": term.chance, "state": OPEN} if term.chance == term.chance else {})
        for name, term in others.items()
    ]


def _useful(one: LaunchCauses) -> float:
    """What is no loss without a baseline: compute, or all time of the normal ranks."""
    return one.normal.get(COMPUTE, one.normal_share)


def _other_terms(own: CellSplit, reference: _Reference | None) -> dict[str, _Term]:
    terms = {
        JITTER: _Term(
            spread([launch.jitter.share for launch in own.launches]),
            float(np.mean([launch.jitter.saved_if_removed for launch in own.launches])),
            ranks="" if own.jitter is None else str(own.jitter.rank),
            phase="" if own.jitter is None else own.jitter.phase,
            chance=NAN if own.jitter is None else own.jitter.chance,
        ),
        EXPOSED_TRANSFER: _Term(
            spread([launch.transfer.share for launch in own.launches]),
            float(np.mean([launch.transfer.saved_if_removed for launch in own.launches])),
        ),
    }
    if own.has_phases:
        terms[INPUT_BOUND] = _of_part(DATA, own, reference)
        terms[OUTSIDE_PHASES] = _of_part(OUTSIDE, own, reference)
    if reference is not None:
        terms[COMPUTE_INFLATION] = _of_part(COMPUTE, own, reference)
        credit = scaled(-1.0, reference.rest)
        terms[BASELINE_CREDIT] = _Term(credit, credit.value)
    return terms


def _of_part(part: str, own: CellSplit, reference: _Reference | None) -> _Term:
    """What the normal ranks share beyond the baseline; it adds to the step by itself."""
    share = own.part(part)
    of_baseline = reference.parts[part] if reference is not None else None
    lost = share if of_baseline is None else less(share, of_baseline)
    return _Term(
        lost,
        lost.value,
        NAN if of_baseline is None else of_baseline.value,
        own.waiting_ranks(lost.value) if part == DATA else "",
    )


_UNNAMED: dict[str, object] = {
    "ranks": "",
    "phase": "",
    "phase_share": NAN,
    "pattern": "",
    "period_steps": NAN,
    "epoch_steps": NAN,
    "first_step": None,
    "last_step": None,
    "last_delay_ns": NAN,
    "chance": NAN,
    "state": "",
    "num_events": None,
    "num_launches": None,
    "affected_share": NAN,
    "delay_ns": NAN,
}


def _named(cause: CellCause, number: int, launches: Sequence[LaunchCauses]) -> dict[str, object]:
    extents = [launch.extents[number] for launch in launches]
    every = cause.every
    in_phase = [member.phase_share for member in every if member.phase == cause.phase]
    delays = [extent.delay_ns for extent in extents if extent.affected_share > 0]
    return {
        "ranks": cause.ranks,
        "phase": cause.phase,
        "phase_share": float(np.mean(in_phase)),
        "pattern": cause.pattern,
        "cause_id": cause_id(cause.kind, cause.ranks, cause.phase, cause.pattern),
        "period_steps": cause.period_steps,
        "epoch_steps": cause.epoch_steps,
        "first_step": int(np.median([member.first_step for member in every])),
        "last_step": int(np.median([member.last_step for member in every])),
        "last_delay_ns": float(np.mean([member.last_delay_ns for member in every])),
        "chance": cause.chance,
        "state": SURE if cause.chance <= FALSE_ALARMS else SEEN,
        "num_events": sum(member.num_events for member in every),
        "num_launches": sum(bool(members) for members in cause.members),
        "affected_share": float(np.mean([extent.affected_share for extent in extents])),
        "delay_ns": float(np.mean(delays)) if delays else NAN,
    }


def _row(cell: Cell, name: str, term: _Term, step_ns: float) -> dict[str, object]:
    share = term.share.interval()
    return {
        **cell.key,
        "term": name,
        "time_ns": share.value * step_ns,
        "time_low_ns": share.low * step_ns,
        "time_high_ns": share.high * step_ns,
        "share": share.value,
        "share_low": share.low,
        "share_high": share.high,
        "saved_if_removed_ns": term.saved_if_removed * step_ns,
        "saved_if_removed_share": term.saved_if_removed,
        "baseline_ns": term.of_baseline * step_ns,
        "baseline_share": term.of_baseline,
        "executing_share": NAN,
        "traced_ns": NAN,
        "copying_share": NAN,
    }
