"""The figures of a running job by name: the one list of names, units and labels for every sink."""

import math
import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hvdprof.live.snapshot import RankView, Snapshot
from hvdprof.plain_text import printable, shortened
from hvdprof.rundir.recording.stall_format import EventKind

MOST_RANKS = 8
"""Ranks with figures of their own; the others are in the quantiles alone."""

LEAST_LATENESS = 0.05
"""Of the step: from here on a rank differs from the median rank, in jobs of more ranks."""

_MOST_CAUSES = 16
_LONGEST_LABEL = 128
_NOT_IN_A_KEY = re.compile(r"[^\w. -]")


@dataclass(frozen=True, slots=True)
class Metric:
    """What is exported under one name.

    Args:
        name: Prometheus' name; in flat dictionaries ``hvdprof/`` stands for ``hvdprof_``.
        unit: In UCUM, as OpenTelemetry wants it: ``s``, ``1`` for ratios and switches.
        help: One sentence.
        labels: Beside ``job``, which every figure has.
        kind: ``counter`` for what only rises.
        stays: Whether it is still true when the watch has ended.
    """

    name: str
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Literal["gauge", "counter"] = "gauge"
    stays: bool = False

    @property
    def flat_name(self) -> str:
        """Its name in flat dictionaries."""
        return self.name.replace("hvdprof_", "hvdprof/", 1)


@dataclass(frozen=True, slots=True)
class Figure:
    """A finite number of a job, with its labels."""

    metric: Metric
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Its name in a flat dictionary; one series however the phase of a rank changes."""
        ends = [
            f"{_PREFIXES[label]}{_NOT_IN_A_KEY.sub('_', self.labels[label])}"
            for label in self.metric.labels
            if label in _PREFIXES
        ]
        return "/".join([self.metric.flat_name, *ends])


_PREFIXES = {"rank": "rank_", "q": "q", "kind": "", "cause": "", "memory": ""}
_OF_RANK = ("rank", "host", "phase")

STEP = Metric("hvdprof_last_step", "{step}", "Last step that all ranks have ended.")
RANKS = Metric("hvdprof_ranks", "{rank}", "Ranks of the job.")
STEP_TIME = Metric("hvdprof_step_seconds", "s", "Length of a step.")
SAMPLES = Metric("hvdprof_samples_per_second", "{sample}/s", "Samples of all ranks per second.")
FIRST_SAMPLES = Metric(
    "hvdprof_first_samples_per_second", "{sample}/s", "The same right after the warm-up."
)
LATENESS = Metric(
    "hvdprof_lateness_seconds",
    "s",
    "Time per step by which a rank is later than the median rank, negative where it is earlier.",
    _OF_RANK,
)
LATENESS_QUANTILE = Metric(
    "hvdprof_lateness_quantile_seconds",
    "s",
    "The same over all ranks: the earliest rank (q 0), the median and the latest (q 1).",
    ("q",),
)
RANK_COST = Metric(
    "hvdprof_rank_cost_seconds",
    "s",
    "Time per step that the job would win without the lateness of a rank.",
    _OF_RANK,
)
RANK_NAMED = Metric("hvdprof_rank_named", "1", "Whether an event names the rank.", _OF_RANK)
COST_RATIO = Metric(
    "hvdprof_lateness_cost_ratio",
    "1",
    "Share of the step that the named causes, or else the latest rank, cost.",
)
EXPOSED = Metric(
    "hvdprof_exposed_communication_ratio",
    "1",
    "Share of the step in which ranks wait for the transfer alone.",
)
INPUT_WAIT = Metric(
    "hvdprof_input_wait_seconds", "s", "Time per step in the data phase, least of all ranks."
)
RANK_MEMORY = Metric(
    "hvdprof_rank_memory_bytes",
    "By",
    "Memory of a rank: rss of its process, tensors on its GPU (torch_allocated).",
    ("rank", "host", "memory"),
)
AVAILABLE_MEMORY = Metric(
    "hvdprof_available_memory_bytes", "By", "Memory available on the host with least of it."
)
CAUSE_COST = Metric("hvdprof_cost_seconds", "s", "Cost per step by cause.", ("cause",))
EVENTS = Metric("hvdprof_events_total", "{event}", "Events so far.", ("kind",), "counter", True)
RUNNING = Metric("hvdprof_events_running", "{event}", "Events begun and not over.", ("kind",))
OVER = Metric("hvdprof_job_over", "1", "Whether every rank has ended its recording.", stays=True)
SEEN = Metric(
    "hvdprof_seen_timestamp_seconds",
    "s",
    "Wall clock of the watcher at its latest window, since 1970.",
    stays=True,
)

METRICS = (
    *(STEP, RANKS, STEP_TIME, SAMPLES, FIRST_SAMPLES),
    *(LATENESS, LATENESS_QUANTILE, RANK_COST, RANK_NAMED),
    *(COST_RATIO, EXPOSED, INPUT_WAIT, RANK_MEMORY, AVAILABLE_MEMORY),
    *(CAUSE_COST, EVENTS, RUNNING, OVER, SEEN),
)
"""Every name that a sink exports, in the order of the figures."""


def figures_of(snapshot: Snapshot) -> list[Figure]:
    """The figures of a snapshot, in the order of ``METRICS``; a number that is unknown has none.

    Label values are bounded in number and length, of one line and valid UTF-8.
    """
    job = label_value(snapshot.job)
    rows = sorted(
        (*_of_job(snapshot), *_of_ranks(snapshot), *_of_kinds(snapshot)),
        key=lambda row: METRICS.index(row[0]),
    )
    return [
        Figure(metric, float(value), {"job": job, **labels})
        for metric, value, labels in rows
        if math.isfinite(value)
    ]


def flat_figures(snapshot: Snapshot) -> dict[str, float]:
    """The same as ``{"hvdprof/step_seconds": 0.1, "hvdprof/lateness_seconds/rank_3": 0.02}``."""
    return {figure.key: figure.value for figure in figures_of(snapshot)}


def label_value(text: str) -> str:
    """A name from a run as it may stand in a label: printable, at most 128 characters."""
    return shortened(printable(text), _LONGEST_LABEL)


_Row = tuple[Metric, float, dict[str, str]]


def _of_job(snapshot: Snapshot) -> Iterator[_Row]:
    yield STEP, snapshot.step, {}
    yield RANKS, snapshot.num_ranks, {}
    yield STEP_TIME, snapshot.step_s, {}
    yield SAMPLES, snapshot.samples_per_s, {}
    yield FIRST_SAMPLES, snapshot.first_samples_per_s, {}
    yield COST_RATIO, snapshot.lateness_cost_ratio, {}
    yield EXPOSED, snapshot.exposed_communication_ratio, {}
    yield INPUT_WAIT, snapshot.input_wait_s, {}
    yield AVAILABLE_MEMORY, snapshot.available_bytes, {}
    yield OVER, snapshot.is_over, {}
    yield SEEN, snapshot.time_s, {}


def _of_ranks(snapshot: Snapshot) -> Iterator[_Row]:
    for view in _shown(snapshot):
        labels = {"rank": str(view.rank), "host": label_value(view.host)}
        # The phase of a difference within the noise changes all the time: a new series each.
        labels["phase"] = label_value(view.phase) if _differs(view, snapshot) else ""
        yield LATENESS, view.late_s, labels
        yield RANK_COST, view.cost_s, labels
        yield RANK_NAMED, view.is_named, labels
        for kind, size in snapshot.memory_bytes.get(view.rank, {}).items():
            named = {name: labels[name] for name in ("rank", "host")}
            yield RANK_MEMORY, size, {**named, "memory": kind}
    ascending = sorted(view.late_s for view in snapshot.ranks if math.isfinite(view.late_s))
    if ascending:
        quantiles = {"0": ascending[0], "0.5": statistics.median(ascending), "1": ascending[-1]}
        yield from ((LATENESS_QUANTILE, value, {"q": q}) for q, value in quantiles.items())


def _of_kinds(snapshot: Snapshot) -> Iterator[_Row]:
    dearest = sorted(snapshot.costs_s.items(), key=lambda cost: (-cost[1], cost[0]))
    for cause, cost_s in sorted(dearest[:_MOST_CAUSES]):
        yield CAUSE_COST, cost_s, {"cause": label_value(cause)}
    for kind in EventKind:
        yield EVENTS, snapshot.events_total.get(kind, 0), {"kind": str(kind)}
    for kind in EventKind:
        running = sum(event.kind == kind for event in snapshot.running)
        yield RUNNING, running, {"kind": str(kind)}


def _shown(snapshot: Snapshot) -> list[RankView]:
    """The ranks with series of their own: every one of a small job, else those that differ."""
    is_small = len(snapshot.ranks) <= MOST_RANKS
    grows = {
        rank
        for event in snapshot.running
        if event.kind == EventKind.MEMORY_GROWS
        for rank in event.ranks
    }
    shown = [
        view
        for view in snapshot.ranks
        if is_small or _differs(view, snapshot) or view.rank in grows
    ]
    shown.sort(key=lambda view: (not (view.is_named or view.rank in grows), -abs(view.late_s)))
    return sorted(shown[:MOST_RANKS], key=lambda view: view.rank)


def _differs(view: RankView, snapshot: Snapshot) -> bool:
    return view.is_named or abs(view.late_s) >= LEAST_LATENESS * snapshot.step_s
