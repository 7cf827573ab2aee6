import numpy as np
import pytest

from hvdprof.analyze.stats.distributions import student_quantile
from hvdprof.errors import UsageError
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.compare_options import CompareOptions, variants_of
from hvdprof.launch.plan.environment import parse_variables
from hvdprof.rundir.stopping import comparison_looks, look_level

SCRIPT = ("python", "train.py")


def test_two_commands_are_two_variants_with_the_shared_options():
    options = CompareOptions(
        run=True, np="1,2", command=(*SCRIPT, "--against", "--", "python", "b.py"), repeats=4
    )
    first, second = variants_of(options)
    assert (first.command, second.command) == (SCRIPT, ("python", "b.py"))
    assert first.np == second.np == "1,2"
    assert first.repeats == second.repeats == 4
    assert not first.interleave


def test_one_command_runs_with_two_environments():
    options = CompareOptions(command=SCRIPT, env=("A=1",), env_a=("C=1",), env_b=("C=5",))
    first, second = variants_of(options)
    assert first.command == second.command == SCRIPT
    assert (first.env, second.env) == (("A=1", "C=1"), ("A=1", "C=5"))


def test_a_reference_model_runs_with_two_environments():
    options = CompareOptions(models="mnist", np="2", env=("A=1",), env_b=("C=5",), repeats=4)
    first, second = variants_of(options)
    assert isinstance(first, BenchOptions) and isinstance(second, BenchOptions)
    assert (first.models, first.np, first.repeats, first.compression) == ("mnist", "2", 4, "none")
    assert (first.env, second.env) == (("A=1",), ("A=1", "C=5"))
    assert not first.interleave


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": ()}, "script is required"),
        ({"command": SCRIPT}, "the same"),
        ({"command": (*SCRIPT, "--against", "--", *SCRIPT)}, "the same"),
        ({"command": (*SCRIPT, "--against")}, "between two commands"),
        ({"models": "mnist"}, "the same"),
        ({"models": "mnist", "trace": False, "env_b": ("A=1",)}, "^--no-trace is for scripts"),
        ({"models": "mnist", "command": SCRIPT, "env_a": ("A=1",)}, "Either"),
    ],
)
def test_what_is_no_comparison_is_refused_with_an_example(options, message):
    with pytest.raises(UsageError, match=message) as error:
        variants_of(CompareOptions(**options))
    assert error.value.hint


@pytest.mark.parametrize("text", ["A", "=1", "A-B=1", "HOROVOD_TIMELINE=x", "HVDPROF_X=1"])
def test_variables_that_cannot_be_set_are_refused(text):
    with pytest.raises(UsageError, match="--env-a"):
        parse_variables("--env-a", [text])


def test_the_last_value_of_a_variable_counts():
    assert parse_variables("--env", ["A=1", "B=x=y", "A=2"]) == {"A": "2", "B": "x=y"}


def test_three_looks_at_most_at_a_level_that_keeps_five_percent():
    assert comparison_looks(10) == (3, 6, 10)
    assert comparison_looks(5) == (3, 5)
    assert comparison_looks(2) == (2,)
    assert [look_level(most) for most in (1, 2, 3)] == [0.05] * 3
    levels = [look_level(most) for most in range(3, 200)]
    assert levels == sorted(levels, reverse=True)
    assert look_level(11) == look_level(12) and look_level(10**6) >= 0.05 / 3


@pytest.mark.parametrize("most", [4, 6, 7, 10, 30, 101])
def test_looks_keep_five_percent_with_t_of_few_launches(most):
    """Pocock's constants of known variances gave 5.7 % with 10 repeats."""
    random = np.random.default_rng(most)
    num, looks = 200_000, comparison_looks(most)
    sums, squares, before = np.zeros(num), np.zeros(num), 0
    wrong = np.zeros(num, dtype=bool)
    for look in looks:
        more = look - before
        mean = random.normal(size=num) / np.sqrt(more)
        within = random.chisquare(more - 1, size=num) if more > 1 else 0.0
        sums, squares, before = sums + more * mean, squares + within + more * mean**2, look
        error = np.sqrt((squares - sums**2 / look) / (look - 1) / look)
        wrong |= sums / look > student_quantile(look - 1, 1 - look_level(most)) * error

    assert 0.043 <= wrong.mean() <= 0.0515
