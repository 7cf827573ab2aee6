"""Arguments of DDP that are worth a try, and those that are not."""

import pytest

from hvdprof.analyze.tune.candidates import VARIABLES, proposals
from hvdprof.rundir.launch_format import (
    BUCKET_CAP,
    BUCKET_VIEW,
    FIND_UNUSED,
    STATIC_GRAPH,
    DdpFacts,
)
from tests.builders.tuned_jobs import MB, job

WHOLE = 46 * MB
BOTH = (("a", "b"), ("a", "b"))


def facts(**values) -> DdpFacts:
    return DdpFacts(gradient_bytes=WHOLE, **values)


def ddp(found=None, **values):
    return job(engine="ddp", ddp=found, **({"sent_bytes": WHOLE} | values))


def names(given):
    found = proposals(given).candidates
    assert {variable for one in found for variable in one.environment} <= set(VARIABLES)
    return [one.name for one in found]


def named(given, name):
    return next(one for one in proposals(given).candidates if one.name == name)


def caps(given):
    return [one.partition("=")[2] for one in names(given) if one.startswith("bucket_cap_mb=")]


def untried(given):
    return {one.knob: one.reason for one in proposals(given).untried}


# ---- buckets


def test_buckets_of_an_unmodified_script_are_a_variable() -> None:
    # 10, 5, 2 and 1 buckets instead of 3: without a size the first one holds 1 MiB.
    given = ddp(facts())
    assert caps(given) == ["5", "10", "25", "50"]
    assert named(given, "bucket_cap_mb=5").environment == {BUCKET_CAP: "5"}
    assert named(given, "bucket_cap_mb=5").why == (
        "48.2 MB of gradients in about 10 buckets instead of 3."
    )


@pytest.mark.heavy
def test_a_size_that_the_script_gives_is_undone_even_where_little_is_blocked() -> None:
    tiny = facts(bucket_cap_mb=0.001)
    assert caps(ddp(tiny)) == ["default", "5", "10", "25", "50"]
    # A bucket for each of the 62 gradients, and never more.
    assert "instead of 62." in named(ddp(tiny), "bucket_cap_mb=default").why
    idle = {"blocked_share": 0.0, "sizes": []}
    assert caps(ddp(tiny, **idle)) == ["default"]
    assert caps(ddp(facts(), **idle)) == []


def test_a_model_that_fits_into_one_bucket_is_cut_into_pieces() -> None:
    assert caps(ddp(facts(), sent_bytes=4 * MB)) == ["5", "1", "0.5"]
    assert caps(ddp(facts(), sent_bytes=MB // 2)) == []


def test_sizes_that_change_no_bucket_are_not_tried() -> None:
    assert caps(ddp(facts(bucket_cap_mb=25.0))) == ["default", "5", "10", "50"]


@pytest.mark.heavy
def test_reference_models_take_the_size_as_an_option() -> None:
    given = ddp(bench=True)
    assert caps(given) == ["5", "10", "25", "50"]
    assert named(given, "bucket_cap_mb=5").options == {"fusion_threshold_mb": 5.0}
    assert caps(ddp(bench=True, options={"fusion_threshold_mb": 25})) == ["5", "10", "50"]
    assert caps(ddp(bench=True, sent_bytes=MB // 2)) == []


def test_a_script_with_an_argument_for_it_is_tuned_by_the_argument() -> None:
    given = ddp(facts(), text="add_argument('--bucket-cap-mb')")
    assert named(given, "bucket_cap_mb=5").arguments == ("--bucket-cap-mb", "5")
    assert named(given, "bucket_cap_mb=5").environment == {}


@pytest.mark.heavy
def test_unknown_and_single_sizes_of_the_script_are_left_alone() -> None:
    assert untried(ddp())["bucket_cap_mb"] == (
        "How the script calls DistributedDataParallel is unknown."
    )
    given = ddp(facts(has_cap_list=True))
    assert caps(given) == []
    assert untried(given)["bucket_cap_mb"] == "The script gives a size for each bucket."


# ---- views, unused parameters, static graph


@pytest.mark.heavy
def test_views_are_tried_where_copies_matter() -> None:
    given = ddp(facts())
    assert named(given, "gradient_as_bucket_view=True").environment == {BUCKET_VIEW: "1"}
    for other in (
        ddp(facts(gradient_as_bucket_view=True)),
        ddp(facts(), sent_bytes=MB // 2),
        ddp(facts(), blocked_share=0.0, sizes=[]),
        ddp(bench=True),
    ):
        assert "gradient_as_bucket_view=True" not in names(other)


def test_the_search_for_unused_parameters_ends_where_all_are_used() -> None:
    searches = facts(find_unused_parameters=True)
    given = ddp(searches, ready=BOTH, num_tensors=2)
    assert named(given, "find_unused_parameters=False").environment == {FIND_UNUSED: "0"}
    assert "find_unused_parameters=False" not in names(ddp(facts(), ready=BOTH, num_tensors=2))


@pytest.mark.parametrize(
    ("ready", "num_tensors", "reason"),
    [
        ((("a", "b"), ("a",)), 2, "Some recorded step lacks a gradient on some rank."),
        (BOTH, 3, "Some recorded step lacks a gradient on some rank."),
        ((), 2, "Which gradients a step has is not recorded."),
    ],
)
def test_a_parameter_that_may_be_unused_keeps_the_search(ready, num_tensors, reason) -> None:
    given = ddp(facts(find_unused_parameters=True), ready=ready, num_tensors=num_tensors)
    assert "find_unused_parameters=False" not in names(given)
    assert "static_graph=True" not in names(given)
    assert untried(given)["find_unused_parameters"] == reason


@pytest.mark.heavy
def test_a_static_graph_needs_all_gradients_in_all_steps() -> None:
    given = ddp(facts(), ready=BOTH, num_tensors=2)
    assert named(given, "static_graph=True").environment == {STATIC_GRAPH: "1"}
    assert "static_graph=True" not in names(
        ddp(facts(static_graph=True), ready=BOTH, num_tensors=2)
    )
    assert untried(ddp(facts(), ready=BOTH, num_tensors=3))["static_graph"].startswith("Some")


# ---- what DDP shares with Horovod


def test_ranks_of_torchrun_have_one_thread_until_more_is_tried() -> None:
    # torchrun sets the variable itself; the script has not.
    given = ddp(facts(), environment={"OMP_NUM_THREADS": "1"}, threads=1, cores=16)
    assert [one for one in names(given) if one.startswith("OMP")] == [
        "OMP_NUM_THREADS=8",
        "OMP_NUM_THREADS=7",
        "OMP_NUM_THREADS=4",
    ]


@pytest.mark.heavy
def test_switches_of_pytorch_are_undone_under_ddp_alone() -> None:
    off = {"TORCH_DISTRIBUTED_DEBUG": "detail", "TORCH_NCCL_BLOCKING_WAIT": "1"}
    assert "TORCH_DISTRIBUTED_DEBUG=OFF" in names(ddp(facts(), environment=off))
    assert "TORCH_NCCL_BLOCKING_WAIT=0" not in names(ddp(facts(), environment=off))
    assert "TORCH_NCCL_BLOCKING_WAIT=0" in names(ddp(facts(), environment=off, cuda=True))
    assert "TORCH_DISTRIBUTED_DEBUG=OFF" not in names(job(environment=off))
    assert "CUDA_LAUNCH_BLOCKING=0" in names(
        job(environment={"CUDA_LAUNCH_BLOCKING": "1"}, cuda=True)
    )


def test_horovods_settings_are_not_tried_under_ddp() -> None:
    variables = {"HOROVOD_CYCLE_TIME": "50", "HOROVOD_DISABLE_GROUP_FUSION": "1"}
    assert not [one for one in names(ddp(facts(), environment=variables)) if "HOROVOD" in one]
