from typing import Any

import pytest

from hvdprof.analyze.steps.host_conditions import host_condition_warnings
from hvdprof.model.run import Run
from hvdprof.model.tables.run_tables import RANKS
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import manifest, pass_record, run


def _run(
    *passes: dict[str, Any],
    threads: tuple[int, ...] = (1, 1),
    host: dict[str, Any] | None = None,
) -> Run:
    """A run on node1 with 2 cores, whose only recorded pass has a rank per entry of ``threads``."""
    records = [
        pass_record(f"p{number}", [], **values) for number, values in enumerate(passes or ({},))
    ]
    ranks = [
        {"pass_id": "p0", "rank": rank, "hostname": "node1", "num_threads": number}
        for rank, number in enumerate(threads)
    ]
    here = {"hostname": "node1", "num_cores": 2} | (host or {})
    return run(manifest=manifest(passes=records, hosts=[here]), ranks=declared_rows(RANKS, *ranks))


def _warnings(*passes: dict[str, Any], **values: Any) -> list[str]:
    return list(host_condition_warnings(_run(*passes, **values)))


def test_an_idle_host_has_no_warning() -> None:
    assert (
        _warnings({"load_average_before": 0.3, "other_cpu_cores": 0.1, "steal_share": 0.01}) == []
    )
    assert _warnings() == []


def test_load_before_the_first_pass_beyond_the_free_cores() -> None:
    assert _warnings({"load_average_before": 0.8}) == [
        "The load average was 0.8 before the first pass, and 2 of 2 cores were needed: "
        "other processes compete with the ranks."
    ]


@pytest.mark.parametrize(("load", "warns"), [(1.5, False), (1.6, True)])
def test_load_that_fits_beside_the_ranks_does_not_count(load: float, warns: bool) -> None:
    # One rank on 2 cores: 1 core is free, and the command itself causes a load of 0.5.
    assert bool(_warnings({"load_average_before": load}, threads=(1,))) is warns


def test_load_of_later_passes_is_that_of_the_run_itself() -> None:
    assert _warnings({"load_average_before": 0.0}, {"load_average_before": 2.0}) == []


def test_load_of_a_machine_larger_than_the_container_does_not_count() -> None:
    assert _warnings({"load_average_before": 9.0}, host={"num_machine_cores": 64}) == []


def test_other_processes_in_the_worst_pass() -> None:
    passes = ({"other_cpu_cores": 0.2}, {"other_cpu_cores": 0.3}, {"other_cpu_cores": 0.6})

    assert _warnings(*passes) == [
        "Other processes kept cores busy during 2 of 3 passes, up to 0.6 cores in p2."
    ]


def test_cores_taken_by_the_hypervisor_in_the_worst_pass() -> None:
    passes = ({"steal_share": 0.12}, {"steal_share": 0.02}, {"steal_share": None})

    assert _warnings(*passes) == [
        "The hypervisor took cores away during 1 of 3 passes, at most 12.0 % of the time in p0."
    ]


def test_unequal_threads() -> None:
    assert _warnings(threads=(1, 2, 2)) == [
        "Ranks computed with 1 or 2 threads: cells with different threads per rank cannot be "
        "compared."
    ]
    # 0 is unknown, not a number of threads.
    assert _warnings(threads=(0, 2)) == []
