"""Findings on memory and GPU errors, from samples of the machine."""

import math
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding
from hvdprof.analyze.findings.run_rules import memory_rules as rules
from hvdprof.model.tables.sample_tables import HOST_SAMPLES, RANK_MACHINE

MB, GB = 1e6, 1e9


class OneLaunch(Evidence):
    """Evidence whose launch speaks for its cell."""

    @cached_property
    def measured(self) -> pd.DataFrame:
        return pd.DataFrame({"pass_id": ["p"], "segment": ["s"]})


def machine(rank: int, measure: str, **values: float) -> dict[str, Any]:
    usual = {"windows": 24, "mean": 1.0, "low": 1.0, "high": 1.0, "others": math.nan}
    growth = dict.fromkeys(("growth", "growth_low", "growth_high", "last_growth"), 0.0)
    counts = {"num_above": 0, "num_below": 0, "chance": 1.0}
    names = {"pass_id": "p", "segment": "s", "rank": rank, "measure": measure}
    return {**names, **usual, **growth, **counts, **values}


def host(measure: str, value: float, rank: int = 0) -> dict[str, Any]:
    window = {"pass_id": "p", "rank": rank, "start_ns": 0, "duration_ns": 10**9, "samples": 1}
    return {**window, "measure": measure, **dict.fromkeys(("mean", "low", "median", "high"), value)}


def evidence(rows: list[dict[str, Any]], hosts: list[dict[str, Any]] | None = None) -> Evidence:
    ranks = pd.DataFrame({"pass_id": ["p", "p"], "rank": [0, 1], "hostname": ["node1", "node2"]})
    run: Any = SimpleNamespace(ranks=ranks)
    tables = {
        RANK_MACHINE.name: RANK_MACHINE.frame(rows),
        HOST_SAMPLES.name: HOST_SAMPLES.frame(hosts or []),
    }
    return OneLaunch(run, tables)


def one(found: Any) -> Finding:
    (finding,) = found
    assert isinstance(finding, Finding)
    return finding


GROWING = {
    "low": GB,
    "high": 1.5 * GB,
    "growth": MB,
    "growth_low": 0.9 * MB,
    "growth_high": 1.1 * MB,
    "last_growth": MB,
}


def test_memory_that_grows_says_by_how_much_and_how_long_there_is_some() -> None:
    rows = [machine(0, "rss", low=GB, high=GB), machine(1, "rss", **GROWING)]
    found = one(rules.memory_grows(evidence(rows, [host("memory_available", 21 * GB)])))

    assert (found.id, found.severity, found.subject) == ("memory-grows", "warning", "rank 1")
    assert found.evidence == (
        "The memory (rss) of rank 1 grows by 1.00 MB per step (900 kB to 1.10 MB), from 1.00 GB to "
        "1.50 GB in p. At this rate the host has no memory available after about 21,000 steps; the "
        "limit of a container may come sooner."
    )


def test_a_limit_far_away_or_unknown_is_no_warning() -> None:
    rows = [machine(1, "rss", **GROWING)]
    far = one(rules.memory_grows(evidence(rows, [host("memory_available", 500 * GB)])))
    two_hosts = [host("memory_available", GB), host("memory_available", GB, rank=1)]
    unknown = one(rules.memory_grows(evidence(rows, two_hosts)))

    assert (far.severity, unknown.severity) == ("note", "note")
    assert "steps" not in unknown.evidence


@pytest.mark.parametrize(
    "less",
    [
        {"growth_low": -0.1 * MB},
        # A cache that is nearly full.
        {"last_growth": 0.1 * MB},
        {"high": GB + 15 * MB},
        {"low": 100 * GB, "high": 100.5 * GB},
    ],
)
def test_noise_caches_and_trifles_are_no_finding(less: dict[str, float]) -> None:
    assert not list(rules.memory_grows(evidence([machine(1, "rss", **{**GROWING, **less})])))


def test_growing_tensors_are_named_as_torch_does() -> None:
    found = one(rules.memory_grows(evidence([machine(0, "torch_allocated", **GROWING)])))

    assert "torch allocated" in found.title
    assert ".detach()" in found.action.text


def test_a_host_that_reads_from_swap() -> None:
    hosts = [host("swap_in", 12 * MB, rank=1), host("swap_out", 3 * MB, rank=1)]
    found = one(rules.host_swaps(evidence([], hosts)))

    assert found.evidence == (
        "node2 read 12.0 MB per second from swap and wrote 3.00 MB, mean of p."
    )


def test_the_rank_whose_pages_are_in_swap_is_named_where_it_is_on_that_host() -> None:
    hosts = [host("swap_in", 12 * MB, rank=1), host("swap_out", 3 * MB, rank=1)]

    def faults(first: float, second: float) -> list[dict[str, Any]]:
        each = enumerate((first, second))
        return [machine(rank, "major_faults", mean=mean) for rank, mean in each]

    found = one(rules.host_swaps(evidence(faults(1.0, 350.0), hosts)))
    assert found.title == "swapping while training, rank 1"
    assert found.evidence.endswith(
        "Rank 1 alone read 90 % or more of the pages that ranks read from disk."
    )
    # Of the other host, of both ranks, of none.
    for rows in (faults(350.0, 1.0), faults(200.0, 100.0), faults(0.0, 0.0), []):
        found = one(rules.host_swaps(evidence(rows, hosts)))
        assert found.title == "swapping while training"
        assert "alone" not in found.evidence


def test_pages_that_are_only_written_out_slow_no_rank_down() -> None:
    hosts = [host("swap_in", 0.5 * MB), host("swap_out", 30 * MB)]

    assert not list(rules.host_swaps(evidence([], hosts)))
    assert not list(rules.host_swaps(evidence([], [host("busy", 2)])))
    assert not list(rules.host_swaps(evidence([])))


def test_allocation_retries_are_counted() -> None:
    rows = [machine(0, "torch_retries", mean=0.0), machine(1, "torch_retries", mean=0.05)]
    found = one(rules.allocation_retries(evidence(rows)))

    assert "3 times per minute on rank 1" in found.evidence
    assert "expandable_segments" in found.action.command
    assert not list(rules.allocation_retries(evidence(rows[:1])))


def test_a_rank_that_holds_more_than_the_others() -> None:
    rows = [
        machine(0, "torch_peak", high=60 * GB, others=40 * GB),
        machine(1, "torch_peak", high=41 * GB, others=50 * GB),
    ]
    found = one(rules.unequal_memory(evidence(rows)))

    assert found.evidence == (
        "The peak of rank 0 is 60.0 GB, that of the others 40.0 GB in the mean (torch allocated)."
    )
    assert not list(rules.unequal_memory(evidence(rows[1:])))


def test_xid_errors_name_gpu_and_host() -> None:
    found = one(
        rules.gpu_errors(evidence([machine(0, "xid", high=0.0), machine(1, "xid", high=79)]))
    )

    assert (found.severity, found.subject) == ("error", "rank 1")
    assert "XID 79 on the GPU of rank 1 (node2)" in found.evidence
