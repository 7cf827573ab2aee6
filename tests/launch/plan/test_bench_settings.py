from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.errors import UsageError
from hvdprof.launch.plan.bench_settings import Machine, bench_settings
from hvdprof.launch.plan.preflight import parse_sizes
from hvdprof.launch.plan.settings import Settings
from tests.builders.bench_settings import FOUR_CORES, KNOWN_MODELS, bench_options


def _settings(machine: Machine = FOUR_CORES, **options: object) -> Settings:
    return bench_settings(bench_options(**options), KNOWN_MODELS, machine)


def test_the_quick_preset() -> None:
    settings = _settings()
    assert settings.sizes == (1, 2)
    assert [(m.name, m.batch_size, m.image_size) for m in settings.models] == [
        ("mnist", 64, 28),
        ("resnet18", 16, 32),
    ]
    assert settings.repeats == 6
    assert (settings.precision, settings.budget_s) == (0.05, 70.0)
    assert settings.num_threads == 2


def test_sizes_are_sorted_and_unique() -> None:
    assert parse_sizes("4, 1,2,2") == (1, 2, 4)


def test_python_callers_give_numbers_and_names_as_such() -> None:
    assert parse_sizes([4, 1, 2]) == parse_sizes((1, 2, 4)) == (1, 2, 4)
    assert parse_sizes(2) == (2,)
    with pytest.raises(UsageError, match="--np 0,2: '0' is not a number of ranks"):
        parse_sizes([0, 2])
    given = _settings(models=["mnist"], compression=("fp16",), engine=["horovod", "ddp"])
    texts = _settings(models="mnist", compression="fp16", engine="horovod,ddp")
    assert given.record() == texts.record()
    with pytest.raises(UsageError, match="--models mnist,lenet: 'lenet' is not known"):
        _settings(models=["mnist", "lenet"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3,0,x", "--np 3,0,x: '0' and 'x' are not numbers of ranks."),
        ("-1", "--np -1: '-1' is not a number of ranks."),
        ("", "--np : '' is not a number of ranks."),
        ("1,,2", "--np 1,,2: '' is not a number of ranks."),
        ("2.0", "--np 2.0: '2.0' is not a number of ranks."),
        ("99999999", "--np 99999999: '99999999' is not a number of ranks."),
    ],
)
def test_wrong_sizes_are_all_named(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_sizes(text)
    assert raised.value.message == message
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"models": "mnist,resnet19"}, "--models mnist,resnet19: 'resnet19' is not", "inception"),
        ({"compression": "bf16"}, "--compression bf16: 'bf16' is not known", "none, fp16"),
        ({"reduction": "sum,max"}, "'sum' and 'max' are not known", "average, adasum"),
        ({"preset": "slow"}, "--preset slow", "quick, standard, full"),
        ({"engine": "ddp,deepspeed"}, "--engine ddp,deepspeed: 'deepspeed' is", "horovod, ddp"),
        ({"scaling": "linear"}, "--scaling linear", "weak, strong"),
        ({"data": "cifar"}, "--data cifar", "synthetic, digits"),
        ({"repeats": 0}, "--repeats 0: must be a number of at least 1", ""),
        ({"budget": "soon"}, "--budget soon: not a duration", "--budget 5m, 90s or 1h30m"),
        ({"budget": "0s"}, "--budget 0s: not a duration", "--budget 5m"),
        ({"budget": "1.2.3s"}, "--budget 1.2.3s: not a duration", "--budget 5m"),
        ({"precision": "good"}, "--precision good: not a precision", "--precision 3% or 0.03"),
        ({"precision": 3}, "--precision 3: not a precision", "--precision 3% or 0.03"),
        ({"precision": "nan"}, "--precision nan: not a precision", "--precision 3% or 0.03"),
        ({"num_steps": 1}, "--num-steps 1", ""),
        ({"max_seconds": 0.0}, "--max-seconds 0", ""),
        ({"max_seconds": float("inf")}, "--max-seconds inf", ""),
        ({"timeout_s": float("nan")}, "--timeout nan", ""),
        ({"np": ""}, "--np : '' is not a number of ranks", ""),
        ({"hosts": "a:x"}, "--hosts a:x", "server1:4"),
        ({"hosts": "a:²"}, "--hosts a:²", "server1:4"),
        (
            {"models": "inception_v3", "image_size": 64},
            "inception_v3 needs images of at least 75",
            "leave inception_v3 out",
        ),
    ],
)
def test_a_mistake_is_one_message(options: dict[str, object], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        _settings(**options)
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_horovod_is_measured_alone_unless_engines_are_named() -> None:
    assert _settings().engines == ("horovod",)
    assert _settings(engine="horovod,ddp").engines == ("horovod", "ddp")


@pytest.mark.parametrize(
    ("engine", "launcher"),
    [
        ("tf-multiworker,tf-mirrored", "tf"),
        ("ddp,tf-central-storage", "torchrun"),
        ("horovod,tf-multiworker", "auto"),
    ],
)
def test_strategies_decide_the_launcher_where_they_are_alone(engine: str, launcher: str) -> None:
    settings = _settings(engine=engine)

    assert settings.launcher == launcher
    assert settings.turn_s is None
    assert "watch each other by the clock" in settings.no_turns


def test_shorthands_add_a_toggle() -> None:
    settings = _settings(fp16_allreduce=True, use_adasum=True)
    assert settings.compressions == ("none", "fp16")
    assert settings.reductions == ("average", "adasum")
    assert _settings(compression="fp16", fp16_allreduce=True).compressions == ("fp16",)


def test_the_number_of_steps_replaces_the_time_limit_unless_both_are_given() -> None:
    assert _settings(num_steps=30).max_seconds is None
    both = _settings(num_steps=30, max_seconds=2.5)
    assert (both.options.num_steps, both.max_seconds) == (30, 2.5)


@pytest.mark.parametrize(
    ("budget", "seconds"),
    [("5m", 300), ("90s", 90), ("90", 90), (45.5, 45.5), ("1h30m", 5400), ("1.5h", 5400)],
)
def test_a_budget_is_a_duration(budget: str | float, seconds: float) -> None:
    assert _settings(budget=budget).budget_s == seconds


@pytest.mark.parametrize("precision", ["3%", "3 %", "0.03", 0.03])
def test_a_precision_is_a_share(precision: str | float) -> None:
    assert _settings(precision=precision).precision == pytest.approx(0.03)


def test_repeats_alone_are_exact_and_otherwise_the_most() -> None:
    exact = _settings(repeats=4)
    assert (exact.repeats, exact.precision, exact.budget_s) == (4, None, None)
    assert not exact.stops_early
    most = _settings(repeats=4, budget="5m")
    assert (most.repeats, most.precision, most.budget_s) == (4, 0.05, 300.0)
    assert most.stops_early


def test_sizes_of_the_standard_preset_follow_the_machine() -> None:
    six_cores = Machine(controller="mpi", device="cpu", num_cores=6, num_gpus=0)
    models = {"models": "mnist", "preset": "standard"}
    assert _settings(six_cores, **models).sizes == (1, 2, 4)
    eight_gpus = Machine(controller="mpi", device="cuda", num_cores=64, num_gpus=8)
    assert _settings(eight_gpus, **models).sizes == (1, 2, 4, 8)
    assert _settings(hosts="a:8,b:8", **models).sizes == (1, 2, 4, 8, 16)


def test_threads_are_the_same_at_every_size_and_fill_the_cores_of_the_largest() -> None:
    eight_cores = Machine(controller="mpi", device="cpu", num_cores=8, num_gpus=0)
    assert _settings(eight_cores, np="1,2").num_threads == 4
    assert _settings(eight_cores, np="1,2,4,8,16").num_threads == 1
    assert _settings(eight_cores, np="16").num_threads == 1
    assert _settings(eight_cores, np="1", num_threads=3).num_threads == 3
    # Other hosts are asked for their cores later; until then they have those of this one.
    on_hosts = _settings(eight_cores, np="1,2,16", hosts="a:4,b:4")
    assert (on_hosts.num_threads, on_hosts.options.num_threads) == (4, None)


def test_launches_take_turns_where_all_fit_on_one_host_without_gpus() -> None:
    roomy = Machine(controller="mpi", device="cpu", num_cores=4, num_gpus=0, memory_bytes=2**34)
    assert _settings(roomy, np="1,2", max_seconds=2.0).turn_s == 0.5
    assert _settings(roomy, np="1,2", max_seconds=30.0).turn_s == 1.0
    assert _settings(roomy, np="1,2", num_steps=50).turn_s == 1.0
    assert _settings(roomy, np="1,2", interleave=False).turn_s is None
    assert _settings(roomy, np="1,2", interleave=False).no_turns == ""
    assert _settings(roomy, np="1,2", hosts="a:1,b:1").turn_s is None
    assert "several hosts" in _settings(roomy, np="1,2", hosts="a:1,b:1").no_turns
    assert "memory" in _settings(roomy, np="32").no_turns
    assert _settings(roomy, np="1,2", launcher="srun").turn_s is None
    assert _settings(roomy, np="32").turn_s is None
    assert _settings(roomy, np="1,2", engine="horovod,ddp").turn_s is not None
    gpu = replace(roomy, device="cuda", num_gpus=4)
    assert _settings(gpu, np="1,2").turn_s is None
    assert _settings(replace(roomy, memory_bytes=None), np="1,2").turn_s is None


def test_image_sizes_without_a_preset_are_small_on_cpus_and_the_models_own_on_gpus() -> None:
    gpu = Machine(controller="mpi", device="cuda", num_cores=8, num_gpus=2)
    chosen = {"preset": "standard", "models": "mnist,resnet18,inception_v3"}
    on_cpu = {m.name: m.image_size for m in _settings(**chosen).models}
    assert on_cpu == {"mnist": 28, "resnet18": 64, "inception_v3": 75}
    on_gpu = {m.name: m.image_size for m in _settings(gpu, **chosen).models}
    assert on_gpu == {"mnist": 28, "resnet18": 224, "inception_v3": 299}


def test_a_folder_of_idx_files_replaces_the_data_source() -> None:
    settings = _settings(data_dir="mnist")
    assert settings.data == "idx"
    assert settings.of_models.data_dir == str(Path("mnist").absolute())


def test_an_emulated_model_is_known_where_its_reference_is() -> None:
    (model,) = _settings(models="emulate:resnet18@0.2").models
    (real,) = _settings(models="resnet18").models
    assert model.name == "emulate:resnet18@0.2"
    assert (model.batch_size, model.image_size) == (real.batch_size, real.image_size)


@pytest.mark.parametrize(
    "name", ["emulate:resnet19@0.2", "emulate:resnet18", "emulate:resnet18@-1"]
)
def test_an_emulated_model_that_cannot_be_used(name: str) -> None:
    with pytest.raises(UsageError):
        _settings(models=name)
