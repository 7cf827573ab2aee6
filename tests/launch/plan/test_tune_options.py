"""The options of a tuning, and those of its runs."""

from pathlib import Path

import pytest

from hvdprof.errors import UsageError
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.compare_options import BENCH_SECONDS
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.launch.plan.tune_options import (
    TuneOptions,
    check_tune_options,
    present_options,
    tuned_sizes,
    variant_options,
)
from hvdprof.model.results.tuning import Candidate

SCRIPT = ("python", "train.py")
DDP = "HVDPROF_DDP_BUCKET_CAP_MB=12.5"
FOLDER = Path("runs/t")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "script is required"),
        ({"command": SCRIPT, "models": "mnist"}, "Either a script or --models"),
        ({"models": "mnist,vgg16"}, "one model is tuned at a time"),
        ({"command": SCRIPT, "host_discovery_script": "./d.sh"}, "elastic job cannot be tuned"),
        ({"command": SCRIPT, "try_": ("HOROVOD_CYCLE_TIME",)}, "--try"),
        ({"command": SCRIPT, "try_": ("HOROVOD_TIMELINE=x",)}, "--try"),
        ({"command": SCRIPT, "try_": ("HOROVOD_FUSION_THRESHOLD=64MB",)}, "64MB: Horovod reads"),
        ({"command": SCRIPT, "try_": ("HOROVOD_CYCLE_TIME=",)}, "TIME=: Horovod reads"),
        ({"command": SCRIPT, "try_": ("HOROVOD_CYCLE_TIME=inf",)}, "inf: Horovod reads"),
        ({"command": SCRIPT, "try_": ("HOROVOD_CYCLE_TIME=1e400",)}, "1e400: Horovod reads"),
        ({"command": SCRIPT, "try_": ("HOROVOD_CYCLE_TIME=-1",)}, "-1: Horovod reads"),
        ({"command": SCRIPT, "try_": ("HVDPROF_DDP_BUCKET_CAP_MB=big",)}, "is no size in MiB"),
        ({"command": SCRIPT, "try_": ("HVDPROF_DDP_STATIC_GRAPH=yes",)}, "is neither 0 nor 1"),
    ],
)
def test_what_cannot_be_tuned_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        check_tune_options(TuneOptions(**options))
    assert error.value.hint


@pytest.mark.parametrize(
    "text", ["HOROVOD_CYCLE_TIME=2.5", "HOROVOD_FUSION_THRESHOLD=0", "A=x", DDP]
)
def test_numbers_of_horovod_and_other_variables_can_be_tried(text: str) -> None:
    check_tune_options(TuneOptions(command=SCRIPT, try_=(text,)))


def test_the_ranks_are_those_given_else_the_slots_else_the_gpus_or_cores() -> None:
    def sizes(num_gpus: int = 0, **options: object) -> tuple[int, ...]:
        given = TuneOptions(command=SCRIPT, **options)
        return tuned_sizes(given, num_cores=4, num_gpus=num_gpus)

    assert sizes() == (4,)
    assert sizes(num_gpus=8) == (8,)
    assert sizes(hosts="a:2,b:1") == (3,)
    assert sizes(np="1,2") == (1, 2)


@pytest.mark.parametrize("options", [{"np": 1}, {"hosts": "a:1"}, {}])
def test_one_rank_has_nothing_to_tune(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="no effect on one rank"):
        tuned_sizes(TuneOptions(command=SCRIPT, **options), num_cores=1, num_gpus=0)


def test_the_present_setting_is_measured_as_run_does_with_a_trace() -> None:
    options = TuneOptions(command=SCRIPT, env=("A=1",), num_steps=30, budget="5m", repeats=8)
    present = present_options(options, (1, 2), FOLDER)
    assert present == RunOptions(
        command=SCRIPT, env=("A=1",), num_steps=30, np=(1, 2), output=str(FOLDER)
    )


def test_a_reference_model_keeps_the_defaults_of_bench() -> None:
    present = present_options(TuneOptions(models="mnist", num_threads=1), (2,), FOLDER)
    assert isinstance(present, BenchOptions)
    assert (present.models, present.preset, present.repeats) == ("mnist", "quick", 1)
    assert (present.num_threads, present.timeout_s) == (1, 300.0)
    assert present.max_seconds == BENCH_SECONDS
    stepped = present_options(TuneOptions(models="mnist", num_steps=9), (2,), FOLDER)
    assert isinstance(stepped, BenchOptions)
    assert (stepped.num_steps, stepped.max_seconds) == (9, None)


def test_a_variant_has_its_variables_options_and_arguments_and_no_trace() -> None:
    present = RunOptions(command=SCRIPT, env=("A=1",), np=(1, 2))
    setting = Candidate(
        name="x",
        environment={"HOROVOD_CYCLE_TIME": "1"},
        options={"controller": "gloo"},
        arguments=("--fp16-allreduce",),
    )
    variant = variant_options(present, setting, FOLDER, num_ranks=2, repeats=6)
    assert variant == RunOptions(
        command=(*SCRIPT, "--fp16-allreduce"),
        env=("A=1", "HOROVOD_CYCLE_TIME=1"),
        controller="gloo",
        np=(2,),
        repeats=6,
        output=str(FOLDER),
        trace=False,
        interleave=False,
        net=False,
    )


@pytest.mark.parametrize("options", [{"cycle_time_ms": 1.0}, {"num_threads": "two"}])
def test_a_setting_that_is_no_option_of_the_run_is_refused(options: dict[str, object]) -> None:
    setting = Candidate(name="x", options=options)
    with pytest.raises(UsageError, match="A setting cannot be used"):
        variant_options(RunOptions(command=SCRIPT), setting, FOLDER, num_ranks=2, repeats=6)
