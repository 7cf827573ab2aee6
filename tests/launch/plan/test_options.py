import dataclasses
import json
from pathlib import Path

import pytest

from hvdprof.errors import UsageError
from hvdprof.launch.plan.bench_options import PRESETS, BenchOptions
from hvdprof.launch.plan.options import (
    PANELS,
    arguments_of,
    check_options,
    declared,
    default_of,
    record_of,
)
from hvdprof.launch.plan.predict_options import NetOptions
from hvdprof.launch.plan.run_options import FunctionOptions, RunOptions
from hvdprof.rundir.json_codec import decode

KINDS = (BenchOptions, RunOptions, FunctionOptions, NetOptions)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_has_an_option_with_help(kind: type) -> None:
    options = dict(declared(kind))
    assert set(options) == {field.name for field in dataclasses.fields(kind)}
    for name, option in options.items():
        assert option.help.endswith("."), name
        assert option.panel in PANELS, name
        default = default_of(kind, name)
        assert not option.known or default in option.known, name


@pytest.mark.parametrize("field", ["num_warmup_batches", "max_seconds", "repeats"])
def test_the_help_of_bench_states_the_default_of_every_preset(field: str) -> None:
    stated = dict(declared(BenchOptions))[field].help.partition("By preset: ")[2]
    for name, preset in PRESETS.items():
        part = next(part for part in stated.rstrip(".").split("; ") if name in part.split())
        assert part.endswith(f" {getattr(preset, field)}")


def test_the_help_of_bench_states_the_default_numbers_of_ranks() -> None:
    assert dict(declared(BenchOptions))["np"].help.endswith(
        "By preset: quick 1,2; standard and full powers of two up to the cores or GPUs."
    )


def test_help_and_page_state_the_same_duration_of_the_quick_preset() -> None:
    duration = PRESETS["quick"].summary.partition("; ")[2]
    page = Path(__file__).parents[3] / "docs/howto/bench.md"
    assert f"The quick preset takes {duration}." in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_no_flag_is_declared_twice(kind: type) -> None:
    flags = [flag for _, option in declared(kind) for flag in option.flags]
    assert len(flags) == len(set(flags))


@pytest.mark.parametrize(
    "options",
    [
        BenchOptions(np=[1, 2], models="mnist", data_dir=Path("digits"), net=False),
        RunOptions(command=["python", "train.py"], np=2, output="runs/mine", trace=False),
        FunctionOptions(np=(1, 2), launcher="spark"),
    ],
)
def test_the_record_of_options_is_read_back_as_the_same_options(options: BenchOptions) -> None:
    recorded = json.loads(json.dumps(record_of(options)))
    assert decode(type(options), recorded, "options", unknown_keys=False) == options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (BenchOptions(num_steps=1), "--num-steps 1: must be a number of at least 2."),
        (BenchOptions(cycle_time_ms=-1), "--cycle-time-ms -1: must be a number of at least 0."),
        (BenchOptions(scaling="linear"), "--scaling linear: not known."),
        (RunOptions(timeout_s=float("nan")), "--timeout nan: must be a number of at least 1."),
        (RunOptions(min_np=0), "--min-np 0: must be a number of at least 1."),
        (RunOptions(slots=0), "--slots 0: must be a number of at least 1."),
        (RunOptions(reset_limit=0), "--reset-limit 0: must be a number of at least 1."),
        (RunOptions(max_np=0), "--max-np 0: must be a number of at least 1."),
        (RunOptions(elastic_timeout_s=0), "--elastic-timeout 0: must be a number of at least 1."),
        (RunOptions(device="tpu"), "--device tpu: not known."),
        (RunOptions(stall_kill_s=30), "--stall-kill 30 is not after --stall-warn 60."),
        (NetOptions(seconds=100), "--seconds 100: must be a number of 0.01 to 60."),
    ],
)
def test_a_mistake_names_the_flag(options: BenchOptions, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        check_options(options)
    assert raised.value.message == message


def test_only_what_was_given_becomes_a_command_line() -> None:
    assert arguments_of(BenchOptions()) == []
    bench = BenchOptions(np=(1, 2), fp16_allreduce=True, net=False, cycle_time_ms=2.5)
    assert arguments_of(bench) == [
        *("--np", "1,2", "--fp16-allreduce", "--no-net", "--cycle-time-ms", "2.5")
    ]
    run = RunOptions(np="2", command=("python", "train.py", "--np", "3"), stall_warn_s=0)
    assert arguments_of(run) == [
        *("--np", "2", "--stall-warn", "0", "--", "python", "train.py", "--np", "3")
    ]


@pytest.mark.parametrize("name", ["jsrun", "aprun", "pals"])
def test_a_launcher_that_takes_the_nodes_of_its_job_takes_no_hosts(name: str) -> None:
    check_options(RunOptions(np=2, launcher=name))
    with pytest.raises(UsageError, match="takes the nodes of its job itself"):
        check_options(RunOptions(np=2, launcher=name, hosts="n1:2"))
