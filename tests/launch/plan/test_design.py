from dataclasses import replace
from typing import Any

import pytest

from hvdprof.launch.plan.design import Design, plan_design, reason_to_skip
from hvdprof.launch.plan.hosts import Capacity, hosts_argument
from hvdprof.launch.plan.settings import Settings
from tests.builders.bench_settings import (
    LOCAL_FOUR_CORES,
    MNIST,
    RESNET,
    bench_settings,
)


def _cells(design: Design, pass_id: str) -> list[str]:
    (record,) = (record for record in design.passes if record.id == pass_id)
    return [segment.segment.id for segment in record.segments]


def test_passes_of_two_repeats_are_interleaved_and_the_second_is_reversed() -> None:
    design = plan_design(bench_settings(sizes=(1, 2, 4), repeats=2), LOCAL_FOUR_CORES)
    assert [record.id for record in design.passes] == [
        "01-np1-torch-r1",
        "02-np1-throughput-r1",
        "03-np2-throughput-r1",
        "04-np4-throughput-r1",
        "05-np2-trace-r1",
        "06-np4-trace-r1",
        "07-np4-throughput-r2",
        "08-np2-throughput-r2",
        "09-np1-throughput-r2",
        "10-np1-torch-r2",
    ]


def test_one_launch_holds_all_models_and_plain_torch_has_launches_of_its_own() -> None:
    settings = bench_settings(sizes=(1,), models=(MNIST, RESNET), repeats=2)
    design = plan_design(settings, LOCAL_FOUR_CORES)
    assert [_cells(design, record.id) for record in design.passes] == [
        ["mnist-torch", "resnet18-torch"],
        ["mnist-none-average", "resnet18-none-average"],
        ["resnet18-none-average", "mnist-none-average"],
        ["resnet18-torch", "mnist-torch"],
    ]


def test_factorial_of_the_toggles() -> None:
    settings = bench_settings(
        sizes=(1, 2, 3), compressions=("none", "fp16"), reductions=("average", "adasum")
    )
    design = plan_design(settings, LOCAL_FOUR_CORES)
    assert _cells(design, "01-np1-torch-r1") == ["mnist-torch"]
    assert _cells(design, "02-np1-throughput-r1") == ["mnist-none-average"]
    assert _cells(design, "03-np2-throughput-r1") == [
        "mnist-none-average",
        "mnist-none-adasum",
        "mnist-fp16-average",
        "mnist-fp16-adasum",
    ]
    assert _cells(design, "04-np3-throughput-r1") == ["mnist-none-average", "mnist-fp16-average"]
    skipped = {(s.size, s.compression, s.reduction): s.reason for s in design.skipped}
    assert skipped == {
        (1, "none", "adasum"): "nothing is reduced at np=1, so Adasum would do nothing",
        (1, "fp16", "average"): "nothing is sent at np=1, so compression would do nothing",
        (1, "fp16", "adasum"): "nothing is sent at np=1, so compression would do nothing",
        (3, "none", "adasum"): "Adasum needs a power of two of ranks, not 3",
        (3, "fp16", "adasum"): "Adasum needs a power of two of ranks, not 3",
    }


def test_attribution_adds_a_pass_and_only_observed_passes_ask_for_a_timeline() -> None:
    design = plan_design(bench_settings(attribution=True), LOCAL_FOUR_CORES)
    timelines = {
        record.mode: {segment.segment.timeline for segment in record.segments}
        for record in design.passes
    }
    assert timelines == {"throughput": {False}, "trace": {True}, "attribution": {True}}


@pytest.mark.parametrize(
    ("settings", "capacity", "size", "toggles", "reason"),
    [
        ({"controller": "gloo"}, {}, 2, ("none", "adasum"), "Horovod has no Adasum under Gloo"),
        ({"device": "cuda"}, {"nccl": True}, 4, ("none", "adasum"), "plain averaging"),
        (
            {"device": "cuda", "hosts": "a:2,b:2,c:2"},
            {"nccl": True},
            6,
            ("none", "adasum"),
            "power of two of hosts, not 3",
        ),
        ({"device": "cuda", "hosts": "a:4,b:4"}, {"nccl": True}, 8, ("none", "adasum"), ""),
        (
            {"device": "cuda", "hosts": "a:4,b:4"},
            {"nccl": True},
            6,
            ("none", "adasum"),
            "as many ranks on every host, not 4, 2",
        ),
        ({"hosts": "a:1,b:2"}, {}, 4, ("none", "average"), "fewer than 4 slots"),
        ({"scaling": "strong"}, {}, 3, ("none", "average"), "cannot be divided by 3"),
        ({}, {}, 2, ("fp16", "adasum"), ""),
    ],
)
def test_reasons(
    settings: dict[str, object],
    capacity: dict[str, bool],
    size: int,
    toggles: tuple[str, str],
    reason: str,
) -> None:
    known = Capacity({}, {}, nccl=capacity.get("nccl", False))
    setting = ("horovod", *toggles)
    said = reason_to_skip(bench_settings(**settings), known, size, MNIST, setting)
    assert (reason in said) if reason else said == ""


def _batch_sizes(settings: Settings) -> dict[int, int]:
    passes = plan_design(settings, LOCAL_FOUR_CORES).passes
    return {record.size: record.segments[0].segment.batch_size for record in passes}


def test_strong_scaling_divides_the_batch_and_weak_scaling_keeps_it() -> None:
    assert _batch_sizes(bench_settings(sizes=(1, 2, 4))) == {1: 64, 2: 64, 4: 64}
    assert _batch_sizes(bench_settings(sizes=(1, 2, 4), scaling="strong")) == {1: 64, 2: 32, 4: 16}


def test_more_ranks_than_cores_is_oversubscribed_and_not_pinned() -> None:
    passes = plan_design(bench_settings(sizes=(4, 8)), LOCAL_FOUR_CORES).passes
    said = {(r.size, r.mode): (r.oversubscribed, r.pinned) for r in passes}
    assert said == {
        (4, "throughput"): (False, True),
        (8, "throughput"): (True, False),
        # The timeline's writer needs a fifth core.
        (4, "trace"): (False, False),
        (8, "trace"): (True, False),
    }


def test_threads_count_as_cores_and_gpus_as_slots() -> None:
    two_threads = plan_design(bench_settings(sizes=(2, 3), num_threads=2), LOCAL_FOUR_CORES)
    assert {r.size: r.oversubscribed for r in two_threads.passes} == {2: False, 3: True}
    gpus = Capacity({"localhost": 64}, {"localhost": 2}, nccl=True)
    on_gpus = plan_design(bench_settings(sizes=(2, 4), device="cuda"), gpus)
    assert {r.size: r.oversubscribed for r in on_gpus.passes} == {2: False, 4: True}


def test_a_launch_names_just_the_slots_that_it_fills() -> None:
    settings = bench_settings(hosts="a:2,b:2")
    assert [hosts_argument(settings, size) for size in (1, 2, 3, 4)] == [
        *("a:1", "a:2", "a:2,b:1", "a:2,b:2"),
    ]
    assert hosts_argument(bench_settings(), 2) is None


def test_a_design_in_which_nothing_can_run_is_empty() -> None:
    design = plan_design(
        bench_settings(sizes=(2,), reductions=("adasum",), controller="gloo"), LOCAL_FOUR_CORES
    )
    assert design.passes == []
    assert len(design.skipped) == 1


def test_ddp_runs_the_same_cells_in_launches_of_its_own() -> None:
    settings = bench_settings(
        engines=("horovod", "ddp"), compressions=("none", "fp16"), repeats=2, attribution=True
    )
    design = plan_design(settings, LOCAL_FOUR_CORES)
    assert [record.id.partition("-")[2] for record in design.passes] == [
        "np1-torch-r1",
        "np1-throughput-r1",
        "np1-ddp-throughput-r1",
        "np2-throughput-r1",
        "np2-ddp-throughput-r1",
        "np2-trace-r1",
        "np2-ddp-trace-r1",
        "np2-attribution-r1",
        "np2-ddp-throughput-r2",
        "np2-throughput-r2",
        "np1-ddp-throughput-r2",
        "np1-throughput-r2",
        "np1-torch-r2",
    ]
    of_ddp = [record for record in design.passes if record.engine == "ddp"]
    assert {segment.segment.id for record in of_ddp for segment in record.segments} == {
        "mnist-ddp-none-average",
        "mnist-ddp-fp16-average",
    }
    assert {record.controller for record in of_ddp} == {"gloo"}
    # The hook records what Horovod's timeline would; there is no writer that needs a core.
    assert not any(segment.segment.timeline for record in of_ddp for segment in record.segments)
    assert all(record.pinned for record in of_ddp)
    assert [(one.engine, one.size, one.compression) for one in design.skipped] == [
        ("horovod", 1, "fp16"),
        ("ddp", 1, "fp16"),
    ]


@pytest.mark.parametrize(
    ("settings", "reduction", "reason"),
    [
        ({}, "average", ""),
        ({}, "adasum", "DDP has no Adasum"),
        ({"hosts": "a:1,b:1"}, "average", ""),
        ({"launcher": "srun"}, "average", "started by torchrun, not by srun"),
        ({"launcher": "pals"}, "average", "started by torchrun, not by pals"),
    ],
)
def test_reasons_against_ddp(settings: dict[str, str], reduction: str, reason: str) -> None:
    known = Capacity({}, {}, nccl=False)
    setting = ("ddp", "none", reduction)
    said = reason_to_skip(bench_settings(**settings), known, 2, MNIST, setting)
    assert (reason in said) if reason else said == ""


def test_strategies_train_twins_in_keras_and_are_not_traced() -> None:
    settings = bench_settings(
        sizes=(1, 2), models=(MNIST, RESNET), engines=("horovod", "tf-multiworker", "tf-mirrored")
    )
    design = plan_design(settings, LOCAL_FOUR_CORES)

    ids = {record.id[3:]: record for record in design.passes}
    assert [name for name in ids if "tf-" in name] == [
        "np1-tf-multiworker-throughput-r1",
        "np1-tf-mirrored-throughput-r1",
        "np2-tf-multiworker-throughput-r1",
        "np2-tf-mirrored-throughput-r1",
    ]
    record = ids["np2-tf-mirrored-throughput-r1"]
    assert [one.segment.model for one in record.segments] == ["keras-mnist", "keras-resnet18"]
    assert (record.size, record.num_processes, record.controller) == (2, 1, "grpc")
    assert ids["np2-tf-multiworker-throughput-r1"].num_processes == 2
    assert "np1-torch-r1" in ids


@pytest.mark.parametrize(("cores", "is_crowded"), [(4, False), (3, True)])
def test_coordinator_and_parameter_server_take_cores_beside_the_ranks(
    cores: int, is_crowded: bool
) -> None:
    capacity = Capacity({"localhost": cores}, {"localhost": 0}, nccl=False)
    settings = bench_settings(sizes=(2,), engines=("tf-parameter-server",), num_threads=1)
    (record,) = plan_design(settings, capacity).passes

    assert (record.size, record.num_processes) == (2, 1)
    assert record.oversubscribed is is_crowded
    assert not record.pinned


def test_strategies_alone_need_no_torch() -> None:
    design = plan_design(
        bench_settings(sizes=(1, 2), engines=("tf-multiworker",)), LOCAL_FOUR_CORES
    )

    assert {record.engine for record in design.passes} == {"tf-multiworker"}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"models": (replace(MNIST, name="vgg16"),)}, "no twin in Keras"),
        ({"compressions": ("fp16",)}, "without compression"),
        ({"hosts": "h1:2"}, "on this host alone"),
        ({"data": "digits"}, "synthetic data alone"),
    ],
)
def test_what_strategies_do_not_train_is_skipped(values: dict[str, Any], reason: str) -> None:
    settings = bench_settings(sizes=(2,), engines=("tf-multiworker",), **values)

    (skipped,) = plan_design(settings, LOCAL_FOUR_CORES).skipped
    assert reason in skipped.reason
