from typing import Any

from hvdprof.analyze.steps.host_conditions import host_condition_warnings
from hvdprof.model.notes import texts
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
    return list(texts(host_condition_warnings(_run(*passes, **values))))


def test_an_idle_host_has_no_warning() -> None:
    assert _warnings({"other_cpu_cores": 0.1, "steal_share": 0.01}) == []
    assert _warnings() == []


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
