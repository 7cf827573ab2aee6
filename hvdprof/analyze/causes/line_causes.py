"""The lines of code that explain the causes of a cell: what its ranks do there and others do not.

A cause is proven before (``analyze.ranks``): lines say what it was, never whether it was.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from hvdprof.analyze.causes.line_contrast import (
    CellSamples,
    Event,
    events_of,
    exact_calls,
    lines_alone,
    longer_lines,
    on_every_rank,
)
from hvdprof.analyze.causes.line_times import LINE, SampledLines, launch_names, line_times
from hvdprof.analyze.findings.finding import SMALLEST_COST
from hvdprof.analyze.ranks.named_cause import LASTING, PERSISTENT
from hvdprof.analyze.ranks.waiting import WaitingTables
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.arrays import Bools, FrameRow
from hvdprof.model.cause_names import ranks_of
from hvdprof.model.causes import (
    COMPUTE_INFLATION,
    INPUT_BOUND,
    OUTSIDE_PHASES,
    PAUSE,
    STRAGGLER,
)
from hvdprof.model.cell_key import (
    CELL_KEY,
    ENGINE_TITLES,
    HOROVOD_ENGINE,
    LAUNCH,
    has_no_toggles,
    is_finished,
    of_base_cell,
)
from hvdprof.model.run import Run
from hvdprof.model.tables.line_tables import (
    ALONE,
    BASELINE,
    IDLE_LEAVES,
    LINE_CAUSES,
    LINE_SAMPLES,
    LINE_SAMPLING,
    LINES,
    NAMED_CALLS,
    OTHER_RANKS,
    USUAL_STEPS,
)
from hvdprof.rundir.recording.line_format import MAIN_PROCESS, WORKER_PROCESS

LEAST_SHARE = 0.2
"""A line that explains less of a delay is not named."""

MOST_OF_DELAY = 0.5
"""What a line explains at least of a delay that lies in no single phase."""

LEAST_BUSY = 0.5
"""Workers that are busy for less of their time are not what their rank waits for."""

MOST_LINES = 3

_PHASES: dict[str, tuple[str, ...]] = {
    "before_update": ("before_update", "outside"),
    "evaluation": ("evaluation", "outside", "forward"),
    "outside": ("outside", "before_update"),
}
"""What the sampler calls the phases of causes, where it is not the same; mixed is any."""

_COMMUNICATION = ("horovod/", "torch/distributed/", "mpi4py/")


def line_tables(
    run: Run, waits: WaitingTables, waterfall: pd.DataFrame
) -> Mapping[str, pd.DataFrame]:
    """LINES and LINE_CAUSES; none of a run without samples and calls.

    Args:
        run: The run.
        waits: The steady steps and named causes of its launches.
        waterfall: WATERFALL.
    """
    samples, calls = run.table(LINE_SAMPLES.name), run.table(NAMED_CALLS.name)
    if samples.empty and calls.empty:
        return {}
    first_steps = {key: int(work.steps.min()) for key, work in waits.works.items()}
    sampled = SampledLines(samples, run.table(LINE_SAMPLING.name), first_steps)
    return {
        LINES.name: line_times(sampled),
        LINE_CAUSES.name: _line_causes(run.segments, sampled, calls, waits, waterfall),
    }


def _line_causes(
    segments: pd.DataFrame,
    sampled: SampledLines,
    calls: pd.DataFrame,
    waits: WaitingTables,
    waterfall: pd.DataFrame,
) -> pd.DataFrame:
    """LINE_CAUSES of the cells without toggles."""
    rows: list[dict[str, object]] = []
    is_measured = (segments["mode"] == "throughput").to_numpy() & is_finished(segments)
    of_cell = ["model", "size", "engine", "compression", "reduction", "batch_size"]
    measured = segments.loc[is_measured, [*LAUNCH, *of_cell]]
    for row in waterfall.to_dict("records"):
        if not has_no_toggles(row) or not _is_large(row):
            continue
        own = _segments_of(measured, row, int(row["np"]), str(row["engine"]))
        cell = CellSamples(sampled, _launches(own), _baseline(measured, row))
        events = events_of(row, waits, cell.launches)
        found = [*exact_calls(row, events, calls), *_sampled(row, cell, events)]
        key = {name: row[name] for name in (*CELL_KEY, "cause_id")}
        rows += [{**key, "ranks": str(row["ranks"]) or "all", **one} for one in found]
    return LINE_CAUSES.frame(rows)


def _is_large(row: FrameRow) -> bool:
    whole = float(row["share"]) + np.nan_to_num(float(row["baseline_share"]))
    return row["term"] in (STRAGGLER, PAUSE) or whole >= SMALLEST_COST


def _phases_of(row: FrameRow) -> tuple[str, ...]:
    phase = str(row["phase"])
    return () if phase == "mixed" else _PHASES.get(phase, (phase,))


def _launches(segments: pd.DataFrame) -> frozenset[str]:
    return frozenset(launch_names(segments))


def _segments_of(measured: pd.DataFrame, row: FrameRow, np_: int, engine: str) -> pd.DataFrame:
    return of_base_cell(measured, str(row["model"]), np_, engine)


def _baseline(measured: pd.DataFrame, row: FrameRow) -> frozenset[str]:
    """The launches of one rank with the same batch: plain torch before the engine itself."""
    size, engine = int(row["np"]), str(row["engine"])
    batches = set(_segments_of(measured, row, size, engine)["batch_size"])
    engines = set(measured["engine"]) if size > 1 else set()
    for other in (engine for engine in ENGINE_TITLES if engine in engines):
        own = _segments_of(measured, row, 1, other)
        if len(own):
            return _launches(own) if set(own["batch_size"]) == batches else frozenset()
    return frozenset()


def _sampled(
    row: FrameRow, cell: CellSamples, events: Sequence[Event]
) -> Iterator[dict[str, object]]:
    term = row["term"]
    if term == STRAGGLER and row["pattern"] in LASTING:
        yield from _against_others(row, cell, float(row["delay_ns"]))
    elif term in (STRAGGLER, PAUSE):
        found = list(_in_events(row, cell, events))
        mean_ns = float(row["delay_ns"]) * float(row["affected_share"])
        yield from found or _against_others(row, cell, mean_ns)
    elif term == INPUT_BOUND:
        yield from _of_input(row, cell)
    elif term in (OUTSIDE_PHASES, COMPUTE_INFLATION):
        yield from _against_baseline(row, cell)


def _against_others(
    row: FrameRow, cell: CellSamples, delay_ns: float
) -> Iterator[dict[str, object]]:
    """The lines of named ranks against those of the others in the same steps."""
    ranks = ranks_of(row)
    others = cell.ranks - set(ranks)
    if not ranks or not others:
        return
    phases = _phases_of(row)
    inside = None if row["pattern"] == PERSISTENT else _steps_within(row)
    by_workers_ns = 0.0
    if phases == ("data",):
        pair = (cell.samples(cell.launches, own, process=WORKER_PROCESS) for own in (ranks, others))
        busy = _without(longer_lines(*pair), IDLE_LEAVES)
        yield from _rows(busy, WORKER_PROCESS, OTHER_RANKS, NAN)
        by_workers_ns = float(busy["excess_high_ns"].sum())
    own, beside = (
        cell.samples(cell.launches, members, phases, inside=inside) for members in (ranks, others)
    )
    longer = longer_lines(own, beside)
    # Workers that cause a delay lose all of it at least: prefetching hides a part of what they do.
    longer = _without(longer, IDLE_LEAVES) if by_workers_ns >= delay_ns else longer
    # On a slow core every line is longer, each by a part of the delay.
    longer = longer if phases else longer[longer["excess_ns"] >= MOST_OF_DELAY * delay_ns]
    yield from _rows(longer, MAIN_PROCESS, OTHER_RANKS, delay_ns)


def _steps_within(row: FrameRow) -> Callable[[pd.DataFrame], Bools]:
    """Windows most of whose steps are those that the delay lasts."""
    first, last = int(row["first_step"]), int(row["last_step"])

    def inside(windows: pd.DataFrame) -> Bools:
        middle = windows["step"].to_numpy() + (windows["steps"].to_numpy() - 1) / 2
        return np.asarray((middle >= first) & (middle <= last))

    return inside


def _in_events(
    row: FrameRow, cell: CellSamples, events: Sequence[Event]
) -> Iterator[dict[str, object]]:
    """The lines inside the long steps that were kept singly, against usual steps."""
    steps = [(event.launch, *place) for event in events for place in event.steps]

    def is_event(windows: pd.DataFrame) -> Bools:
        of_events = pd.MultiIndex.from_frame(windows[["launch", "rank", "step"]]).isin(steps)
        return np.asarray(of_events & (windows["steps"] == 1).to_numpy())

    ranks, phases = ranks_of(row), _phases_of(row)
    own = cell.samples(cell.launches, ranks, phases, inside=is_event)
    usual = cell.samples(cell.launches, ranks, phases, inside=lambda one: ~is_event(one))
    longer = longer_lines(own, usual)
    sampled = [event for event in events if event.holds(own.lines).any()]
    for found in _rows(longer, MAIN_PROCESS, USUAL_STEPS, float(row["delay_ns"])):
        is_there = own.lines[LINE] == [found[name] for name in LINE]
        at_line = own.lines[is_there.all(axis=1).to_numpy()]
        number = sum(bool(event.holds(at_line).any()) for event in sampled)
        yield found | {"num_events": number, "of_events": len(sampled)}


def _of_input(row: FrameRow, cell: CellSamples) -> Iterator[dict[str, object]]:
    """What the workers do while ranks wait for them; without workers, what the data phase does."""
    ranks = ranks_of(row)
    own = cell.samples(cell.launches, ranks, process=WORKER_PROCESS)
    process = WORKER_PROCESS if len(own.lines) else MAIN_PROCESS
    if process == WORKER_PROCESS:
        busy = _without(own.lines, IDLE_LEAVES)
        shares = busy.groupby("rank")["samples"].sum() / own.lines.groupby("rank")["samples"].sum()
        if not (shares.reindex(sorted(ranks or cell.ranks)) >= LEAST_BUSY).all():
            return
        own = replace(own, lines=busy, whole=busy.assign(time_ns=NAN))
    else:
        own = cell.samples(cell.launches, ranks, ("data",))
    lines = on_every_rank(lines_alone(own), own, ranks or cell.ranks)
    yield from _rows(lines[(lines["share"] >= LEAST_SHARE).to_numpy()], process, ALONE, NAN)


def _against_baseline(row: FrameRow, cell: CellSamples) -> Iterator[dict[str, object]]:
    """The lines of all ranks against those of the baseline, in phases without waits."""
    phases: tuple[str, ...] = ("outside", "before_update")
    if row["term"] == COMPUTE_INFLATION:
        # Under other engines, backward holds the waits for gradients.
        is_horovod = row["engine"] == HOROVOD_ENGINE
        phases = ("forward", "backward") if is_horovod else ("forward",)
    own = cell.samples(cell.launches, (), phases)
    if cell.baseline:
        baseline = cell.samples(cell.baseline, (), phases)
        longer = _without(longer_lines(own, baseline), _COMMUNICATION)
        # One slow rank lengthens the mean of all, too.
        usual = longer["mean_ns"] - longer["excess_ns"]
        least = on_every_rank(longer, own, cell.ranks)["excess_ns"]
        on_all = longer.loc[least.index[(least > usual[least.index]).to_numpy()]]
        yield from _rows(on_all, MAIN_PROCESS, BASELINE, float(row["time_ns"]))
    elif row["term"] == OUTSIDE_PHASES:
        alone = on_every_rank(_without(lines_alone(own), _COMMUNICATION), own, cell.ranks)
        alone = alone.drop(columns="share").sort_values("excess_ns", ascending=False, kind="stable")
        yield from _rows(alone, MAIN_PROCESS, ALONE, float(row["time_ns"]))


def _without(lines: pd.DataFrame, parts: Sequence[str]) -> pd.DataFrame:
    """Lines whose leaves hold none of these parts; all with code of the user's as the leaf."""
    is_in = [any(part in leaf for part in parts) for leaf in lines["leaf"]]
    return lines[~np.array(is_in, dtype=bool)]


def _rows(
    lines: pd.DataFrame, process: str, against: str, delay_ns: float
) -> Iterator[dict[str, object]]:
    """Rows of LINE_CAUSES for the first lines that explain enough of the delay, ns."""
    for line in lines.head(MOST_LINES).to_dict("records"):
        share = float(line.get("share", float(line["excess_ns"]) / delay_ns))
        if share < LEAST_SHARE:
            continue
        names = ("file", "line", "function", "leaf", "samples")
        ends = ("excess_ns", "excess_low_ns", "excess_high_ns")
        yield {
            "process": process,
            "against": against,
            **{name: line[name] for name in (*names, *ends)},
            "share": share,
            "num_events": None,
            "of_events": None,
        }
