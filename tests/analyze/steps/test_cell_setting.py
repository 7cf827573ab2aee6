import itertools
from pathlib import Path
from typing import Any

import pytest

from hvdprof.analyze.steps.cell_setting import CellSetting, cell_setting
from hvdprof.analyze.steps.other_load import OtherLoad
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.tables.run_tables import RANKS, SEGMENTS
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import manifest, pass_record, run
from tests.builders.nccl_log import job, recorded

CELL = {"model": "resnet18", "np": 2, "engine": "horovod"}
RANK = {"hostname": "node1", "device": "cpu", "num_threads": 1}


def _setting(
    *passes: dict[str, Any],
    ranks: tuple[dict[str, Any], ...] = ({}, {}),
    busy_cores: tuple[float, ...] = (),
    nccl: tuple[NcclRecording, ...] = (),
    engine: str = "horovod",
    **values: Any,
) -> CellSetting:
    """The setting of a cell with these throughput passes, each with these ranks."""
    names = [f"p{number}" for number in range(len(passes) or 1)]
    records = [
        pass_record(name, [], **given) for name, given in zip(names, passes or ({},), strict=True)
    ]
    segment = {"segment": "s", "mode": "throughput", "model": "resnet18", "size": 2}
    plain = {"engine": engine, "compression": "none", "reduction": "average"}
    return cell_setting(
        run(
            manifest=manifest(passes=records, **values),
            nccl=nccl,
            segments=declared_rows(
                SEGMENTS,
                *(
                    {"pass_id": name, **segment, **plain, "busy_cores": busy}
                    for name, busy in itertools.zip_longest(
                        names, busy_cores, fillvalue=float("nan")
                    )
                ),
            ),
            ranks=declared_rows(
                RANKS,
                *(
                    {"pass_id": name, "rank": number, **RANK, **rank}
                    for name in names
                    for number, rank in enumerate(ranks)
                ),
            ),
        ),
        CELL | {"engine": engine},
    )


def test_two_ranks_on_the_two_cores_of_a_host() -> None:
    idle = {"other_cpu_cores": 0.05}
    assert _setting(idle, idle) == CellSetting(
        num_hosts=1,
        on_gpus=False,
        controller="mpi",
        every_core_computes=True,
        one_thread=True,
        num_cores=2,
        load=OtherLoad(num_cores=2, num_launches=2, is_idle=True),
    )


@pytest.mark.parametrize("other", [{"other_cpu_cores": 0.3}, {}])
def test_a_host_with_a_busy_or_an_unknown_launch_is_not_idle(other: dict[str, float]) -> None:
    assert not _setting({"other_cpu_cores": 0.05}, other).load.is_idle


def test_hosts_are_those_of_the_ranks() -> None:
    assert _setting(ranks=({}, {"hostname": "node2"})).num_hosts == 2
    # One thread on the launching host leaves one of its cores free.
    assert not _setting(ranks=({}, {"hostname": "node2"})).every_core_computes


def test_gpus_by_the_ranks_or_by_the_settings() -> None:
    assert _setting(ranks=({"device": "cuda:0"}, {"device": "cuda:1"})).on_gpus
    assert _setting(settings={"device": "cuda"}).on_gpus


def test_the_bench_decides_what_reduces_under_ddp_and_a_script_does_not() -> None:
    on_gpus = {"settings": {"device": "cuda"}, "engine": "ddp"}
    assert _setting({"controller": "nccl"}, **on_gpus).backend == "nccl"
    by_script = on_gpus | {"settings": {"device": "cuda", "script": {}}}
    assert _setting({"controller": "nccl"}, **by_script).backend == ""
    own = ({"backend": "gloo"}, {"backend": "gloo"})
    assert _setting({"controller": "nccl"}, ranks=own, **by_script).backend == "gloo"


def test_a_job_that_logs_communicators_of_nccl_reduces_by_it(tmp_path: Path) -> None:
    on_gpus = {"settings": {"device": "cuda"}}
    assert _setting(nccl=(recorded(tmp_path, job()),), **on_gpus).backend == "nccl"
    assert _setting(**on_gpus).backend == ""


def test_passes_under_different_controllers_have_none_in_common() -> None:
    assert _setting({}, {"controller": "gloo"}).controller == ""


@pytest.mark.parametrize(
    ("threads", "taken"),
    [(1, 0.5), (0, 0.5), (3, 1.35)],  # an unknown number of threads is at least 1
)
def test_the_load_is_what_others_take_from_the_threads(threads: int, taken: float) -> None:
    hosts = [{"hostname": "node1", "num_cores": 3}]
    ranks = ({"num_threads": threads},) * 2
    load = _setting({"other_cpu_cores": 1.5}, ranks=ranks, hosts=hosts).load
    assert load.taken_cores == pytest.approx(taken)


@pytest.mark.parametrize(
    ("busy_cores", "values", "waits"),
    [
        ((0.4, 0.9), {}, True),
        ((0.4, 1.7), {}, False),
        ((0.4, float("nan")), {}, False),
        ((0.4, 0.4), {"ranks": ({}, {"device": "cuda:0"})}, False),
        ((0.4, 0.4), {"ranks": ({}, {"hostname": "node2"})}, False),
        ((0.0, 0.0), {"hosts": []}, False),
    ],
    ids=["both launches", "one computes", "one unknown", "on a GPU", "two hosts", "no host"],
)
def test_ranks_that_leave_the_cores_idle_mostly_wait(
    busy_cores: tuple[float, ...], values: dict[str, Any], waits: bool
) -> None:
    passes = ({"other_cpu_cores": 0.05}, {"other_cpu_cores": 0.05})
    assert _setting(*passes, busy_cores=busy_cores, **values).ranks_mostly_wait == waits


@pytest.mark.parametrize("others", [1.5, None])
def test_ranks_that_other_processes_keep_from_the_cores_do_not_count_as_waiting(
    others: float | None,
) -> None:
    setting = _setting({"other_cpu_cores": others}, busy_cores=(0.4,))
    assert not setting.ranks_mostly_wait


def test_an_unknown_host_has_no_cores() -> None:
    setting = _setting({"other_cpu_cores": 3.0}, hosts=[])
    assert (setting.num_cores, setting.every_core_computes) == (0, False)
    assert setting.load.num_busy == 0
