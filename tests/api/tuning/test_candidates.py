"""What a tuning tries."""

from types import SimpleNamespace

import pytest

from hvdprof.api.options import TuneOptions
from hvdprof.api.tuning import candidates
from hvdprof.api.tuning.candidates import check_command, check_only, choose
from hvdprof.errors import UsageError
from hvdprof.model.results.tuning import Candidate, Estimate

CYCLE = Candidate(name="HOROVOD_CYCLE_TIME=1", environment={"HOROVOD_CYCLE_TIME": "1"})
FUSION = Candidate(
    name="HOROVOD_FUSION_THRESHOLD=1",
    environment={"HOROVOD_FUSION_THRESHOLD": "1"},
    predicted=Estimate(0.3, 0.2, 0.4),
)
FP16 = Candidate(name="--fp16", arguments=("--fp16",), changes_numerics=True)
SCRIPT = ("python", "absent.py")


@pytest.fixture(autouse=True)
def found(monkeypatch):
    """What the rules propose, without a run."""
    untried = SimpleNamespace(knob="cache", reason="All tensors fit.")
    proposed = SimpleNamespace(candidates=(CYCLE, FUSION, FP16), untried=(untried,))
    monkeypatch.setattr(candidates, "proposals", lambda job: proposed)
    monkeypatch.setattr(candidates, "with_predictions", lambda job, given: tuple(given))


def chosen(*, is_bench=False, sets_threads=False, **options):
    job = SimpleNamespace(is_bench=is_bench, sets_threads=sets_threads)
    return choose(job, TuneOptions(command=SCRIPT, **options))


def names(candidates):
    return [one.name for one in candidates]


def test_the_largest_predicted_gain_runs_first_and_arithmetic_is_left_alone():
    choice = chosen()
    assert names(choice.candidates) == [FUSION.name, CYCLE.name]
    (left_out,) = choice.untried
    assert left_out.candidate == FP16 and "--allow-numerics" in left_out.reason
    assert choice.notes == ("cache: All tensors fit.",)
    assert names(chosen(allow_numerics=True).candidates) == [FUSION.name, CYCLE.name, FP16.name]


def test_only_takes_names_of_settings_and_of_variables():
    choice = chosen(only="HOROVOD_CYCLE_TIME, --fp16", allow_numerics=True)
    assert names(choice.candidates) == [CYCLE.name, FP16.name]
    assert names(chosen(only=CYCLE.name).candidates) == [CYCLE.name]


def test_only_with_an_unknown_name_lists_those_that_are_known():
    with pytest.raises(UsageError, match="--only X: no setting") as error:
        chosen(only="X")
    assert CYCLE.name in error.value.hint


def test_a_misspelt_variable_is_refused_before_anything_is_measured():
    with pytest.raises(UsageError, match="--only HOROVOD_CYCLE_TIM: tune sets no") as error:
        check_only(TuneOptions(command=SCRIPT, only="HOROVOD_CYCLE_TIM=1"))
    assert error.value.hint == "Did you mean HOROVOD_CYCLE_TIME?"
    with pytest.raises(UsageError) as error:
        check_only(TuneOptions(command=SCRIPT, only="NCCL_ALGO"))
    assert error.value.hint == "Also try it: --try NCCL_ALGO=VALUE"


@pytest.mark.parametrize(
    "only", [None, "HOROVOD_CYCLE_TIME=0.1, controller gloo", "NCCL_ALGO", "--fp16", "fp16"]
)
def test_names_that_a_rule_may_propose_wait_for_the_present_run(only):
    check_only(TuneOptions(command=SCRIPT, only=only, try_=("NCCL_ALGO=Ring",)))


def test_a_variable_of_the_user_is_tried_too():
    choice = chosen(try_=("NCCL_ALGO=Ring",), only="NCCL_ALGO")
    (one,) = choice.candidates
    assert (one.name, one.environment, one.options) == (
        "NCCL_ALGO=Ring",
        {"NCCL_ALGO": "Ring"},
        {},
    )


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("HOROVOD_CYCLE_TIME=2.5", {"cycle_time_ms": 2.5}),
        ("HOROVOD_FUSION_THRESHOLD=1048576", {"fusion_threshold_mb": 1.0}),
        ("OMP_NUM_THREADS=2", {"num_threads": 2}),
    ],
)
def test_reference_models_take_such_variables_as_options(text, options):
    choice = chosen(is_bench=True, try_=(text,), only=text.partition("=")[0])
    last = next(one for one in choice.candidates if one.name == text)
    assert last.options == options and not last.environment


def test_threads_that_hvdprof_sets_are_an_option_of_scripts_too():
    for sets_threads, options in ((True, {"num_threads": 1}), (False, {})):
        choice = chosen(
            sets_threads=sets_threads, try_=("OMP_NUM_THREADS=1",), only="OMP_NUM_THREADS=1"
        )
        assert choice.candidates[0].options == options


def test_several_values_of_one_variable_are_all_tried():
    choice = chosen(try_=("NCCL_ALGO=Ring", "NCCL_ALGO=Tree"))
    assert {"NCCL_ALGO=Ring", "NCCL_ALGO=Tree"} <= set(names(choice.candidates))


def test_what_the_user_tries_stays_beside_only():
    choice = chosen(only="HOROVOD_CYCLE_TIME", try_=("NCCL_ALGO=Ring",))
    assert names(choice.candidates) == [CYCLE.name, "NCCL_ALGO=Ring"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("env", "A=1", "B=x y"), "hvdprof tune --env A=1 --env 'B=x y' -- python train.py"),
        (("/usr/bin/env", "-u", "OMP_NUM_THREADS"), "hvdprof tune -- python train.py"),
    ],
)
def test_variables_of_env_in_front_of_the_script_are_refused(words, hint):
    with pytest.raises(UsageError, match="replaces variables that are tried") as error:
        check_command((*words, "python", "train.py"))
    assert error.value.hint.endswith(hint)


def test_a_secret_behind_env_is_masked():
    with pytest.raises(UsageError) as error:
        check_command(("env", "API_TOKEN=hunter2", "python", "train.py"))
    assert "hunter2" not in f"{error.value.message} {error.value.hint}"


def test_env_without_variables_and_models_are_tuned():
    check_command(("env", "python", "train.py"))
    check_command(("python", "train.py", "A=1"))
    check_command(())


def test_an_argument_of_ddp_is_also_named_as_the_script_does(monkeypatch):
    buckets = Candidate(name="bucket_cap_mb=25", environment={"HVDPROF_DDP_BUCKET_CAP_MB": "25"})
    proposed = SimpleNamespace(candidates=(CYCLE, buckets), untried=())
    monkeypatch.setattr(candidates, "proposals", lambda job: proposed)
    for only in ("bucket_cap_mb", "bucket_cap_mb=25", "HVDPROF_DDP_BUCKET_CAP_MB"):
        assert names(chosen(only=only).candidates) == [buckets.name]
