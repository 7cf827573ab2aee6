from dataclasses import replace

import pytest

from hvdprof.api.progress import launch_title
from hvdprof.launch.plan.design import plan_design
from tests.builders.bench_settings import LOCAL_FOUR_CORES, bench_settings

TORCH, *_ = PASSES = plan_design(bench_settings(), LOCAL_FOUR_CORES).passes


def test_a_launch_is_named_by_ranks_and_mode() -> None:
    assert [launch_title(record) for record in PASSES] == [
        "1 rank, plain torch, repeat 1",
        "1 rank, throughput, repeat 1",
        "2 ranks, throughput, repeat 1",
        "2 ranks, trace, repeat 1",
    ]


def test_ddp_and_elastic_launches_are_named_as_such() -> None:
    settings = bench_settings(engines=("ddp",), sizes=(2,))
    titles = {launch_title(one) for one in plan_design(settings, LOCAL_FOUR_CORES).passes}
    assert "2 ranks, DDP, throughput, repeat 1" in titles
    assert launch_title(replace(PASSES[1], session=0)) == "elastic, throughput, repeat 1"


@pytest.mark.parametrize(
    ("engine", "title"),
    [
        ("collectives", "2 ranks, torch.distributed, throughput, repeat 1"),
        ("fsdp", "2 ranks, FSDP2, throughput, repeat 1"),
        ("ddp", "2 ranks, DDP, throughput, repeat 1"),
    ],
)
def test_a_script_of_torch_distributed_is_named_once_its_ranks_have_said_so(engine, title) -> None:
    (record,) = [one for one in PASSES if one.size == 2 and one.mode == "throughput"]
    planned = record.segments[0]
    named = replace(planned, segment=replace(planned.segment, engine=engine))
    assert launch_title(replace(record, segments=[named])) == title
