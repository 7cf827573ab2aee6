"""Names, values and bounds of the figures that every sink exports."""

import math
import re
from collections import Counter

from hvdprof.live.flat_figures import (
    LATENESS,
    METRICS,
    MOST_RANKS,
    RANK_MEMORY,
    figures_of,
    flat_figures,
)
from hvdprof.rundir.recording.stall_format import EventKind
from tests.builders.watched_job import HOSTILE, event, rank_view, snapshot


def test_the_figures_of_a_job_by_name():
    flat = flat_figures(snapshot())
    expected = {
        "hvdprof/last_step": 120.0,
        "hvdprof/ranks": 4.0,
        "hvdprof/step_seconds": 0.1,
        "hvdprof/samples_per_second": 2560.0,
        "hvdprof/first_samples_per_second": 3200.0,
        "hvdprof/lateness_seconds/rank_2": 0.0,
        "hvdprof/lateness_seconds/rank_3": 0.02,
        "hvdprof/lateness_quantile_seconds/q0": 0.0,
        "hvdprof/lateness_quantile_seconds/q0.5": 0.0,
        "hvdprof/lateness_quantile_seconds/q1": 0.02,
        "hvdprof/rank_cost_seconds/rank_3": 0.02,
        "hvdprof/rank_named/rank_0": 0.0,
        "hvdprof/rank_named/rank_3": 1.0,
        "hvdprof/lateness_cost_ratio": 0.2,
        "hvdprof/input_wait_seconds": 0.01,
        "hvdprof/rank_memory_bytes/rank_3/rss": 3e9,
        "hvdprof/rank_memory_bytes/rank_3/torch_allocated": 5e9,
        "hvdprof/available_memory_bytes": 48e9,
        "hvdprof/cost_seconds/straggler": 0.02,
        "hvdprof/events_total/straggler": 1.0,
        "hvdprof/events_total/hang": 0.0,
        "hvdprof/events_running/straggler": 1.0,
        "hvdprof/events_running/input-bound": 0.0,
        "hvdprof/job_over": 0.0,
        "hvdprof/seen_timestamp_seconds": 1_795_800_000.25,
    }
    assert {key: flat[key] for key in expected} == expected


def test_unknown_numbers_have_no_figure():
    names = {
        *("step_s", "samples_per_s", "first_samples_per_s", "lateness_cost_ratio"),
        *("exposed_communication_ratio", "input_wait_s"),
    }
    unknown = snapshot(
        **dict.fromkeys(names, math.nan),
        ranks=[rank_view(0, late_s=math.nan)],
        costs_s={"input": math.nan},
        available_bytes=math.nan,
        memory_bytes={},
    )
    figures = figures_of(unknown)
    assert all(math.isfinite(figure.value) for figure in figures)
    assert {figure.metric.name for figure in figures} == {
        *("hvdprof_last_step", "hvdprof_ranks", "hvdprof_rank_named"),
        *("hvdprof_events_total", "hvdprof_events_running", "hvdprof_job_over"),
        "hvdprof_seen_timestamp_seconds",
    }


def test_of_many_ranks_those_that_differ_have_figures_of_their_own():
    ranks = [rank_view(rank, late_s=0.001, is_named=False) for rank in range(512)]
    ranks[400] = rank_view(400, late_s=0.004)
    ranks[7] = rank_view(7, late_s=0.006, is_named=False)
    shown = [
        figure.labels["rank"]
        for figure in figures_of(snapshot(ranks=ranks))
        if figure.metric is LATENESS
    ]
    assert shown == ["7", "400"]


def test_of_many_ranks_that_whose_memory_grows_has_its_memory():
    ranks = [rank_view(rank, late_s=0.001, is_named=False) for rank in range(512)]
    memory = {rank: {"rss": 1e9 + rank} for rank in range(512)}
    growing = event(kind=EventKind.MEMORY_GROWS, ranks=(77,))
    figures = figures_of(snapshot(ranks=ranks, memory_bytes=memory, running=[growing]))
    sizes = {f.labels["rank"]: f.value for f in figures if f.metric is RANK_MEMORY}
    assert sizes == {"77": 1e9 + 77}


def test_the_ranks_and_causes_with_labels_are_bounded():
    ranks = [rank_view(rank, late_s=rank / 1000) for rank in range(512)]
    costs_s = {f"cause {number}": float(number) for number in range(1000)}
    figures = figures_of(snapshot(ranks=ranks, costs_s=costs_s))
    counts = Counter(figure.metric.name for figure in figures)
    assert counts["hvdprof_lateness_seconds"] == MOST_RANKS
    assert counts["hvdprof_cost_seconds"] == 16
    latest = {figure.labels["rank"] for figure in figures if figure.metric is LATENESS}
    assert latest == {str(rank) for rank in range(504, 512)}


def test_hostile_names_are_printable_and_short_in_labels_and_keys():
    ranks = [rank_view(0, late_s=0.01, host=HOSTILE, phase=HOSTILE)]
    figures = figures_of(snapshot(job=HOSTILE, ranks=ranks, costs_s={HOSTILE: 1.0}))
    values = [value for figure in figures for value in figure.labels.values()]
    assert all(value.isprintable() and len(value) <= 128 for value in values)
    # What MLflow allows in the name of a metric.
    assert all(re.fullmatch(r"[/\w.\- ]*", figure.key) for figure in figures)
    assert len({figure.key for figure in figures}) == len(figures)


def test_figures_have_the_labels_that_are_declared_in_the_order_of_the_metrics():
    figures = figures_of(snapshot(exposed_communication_ratio=0.1))
    assert {figure.metric for figure in figures} == set(METRICS)
    assert [figure.metric for figure in figures] == sorted(
        (figure.metric for figure in figures), key=METRICS.index
    )
    assert all(tuple(figure.labels) == ("job", *figure.metric.labels) for figure in figures)
    assert {figure.labels["kind"] for figure in figures if "kind" in figure.labels} == {
        str(kind) for kind in EventKind
    }


def test_a_rank_within_the_noise_has_no_phase():
    ranks = [
        rank_view(0, late_s=0.004, is_named=False),
        rank_view(1, late_s=0.006, is_named=False),
        rank_view(2, late_s=0.004),
    ]
    phases = [
        figure.labels["phase"]
        for figure in figures_of(snapshot(ranks=ranks))
        if figure.metric is LATENESS
    ]
    assert phases == ["", "data", "data"]
