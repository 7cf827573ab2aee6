import pytest
from typer.testing import CliRunner

from hvdprof.cli.main import build_app
from hvdprof.errors import UsageError


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("compare before after --np 2 --margin 3 --models mnist", "--np, --models is for"),
        ("predict --table x.csv --link 25Gbit --np 8", "--link has no effect"),
        ("predict --score a b --np 8 --force", "--np has no effect"),
        ("bench --resume runs/x --np 2 --repeats 1 --no-net", "--np, --repeats cannot change"),
    ],
)
def test_exactly_the_options_without_effect_are_named(command: str, named: str) -> None:
    result = CliRunner().invoke(build_app(), command.split())

    assert isinstance(result.exception, UsageError)
    assert named in result.exception.message.replace(";", "")
    assert "--margin" not in result.exception.message


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("run --lines 20 --no-lines -- true", "--lines and --no-lines exclude each other."),
        ("bench --no-lines --lines 5", "--lines and --no-lines exclude each other."),
        ("run --light --trace -- true", "--light and --trace exclude each other."),
        ("bench --light --interleave", "--light and --interleave exclude each other."),
        ("tune --no-trace --timeline-steps 5 -- true", "--timeline-steps and --no-trace exclude"),
        ("run --light --timeline-steps 5 -- true", "--timeline-steps and --light exclude"),
        ("bench --data digits --data-dir x", "--data and --data-dir exclude each other."),
        ("run --image x -- true", "--image is for --kubernetes."),
        ("bench --pod-ranks 2", "--pod-ranks is for --kubernetes."),
        (
            "run --pod-ranks 2 --kubernetes trainjob -- true",
            "--pod-ranks and --kubernetes trainjob exclude each other.",
        ),
        ("sql run --tables --vertical", "--tables lists the tables in the terminal."),
        ("sql run SELECT --vertical --format json", "--vertical shapes a table, not json."),
        ("analyze --format json-schema --section x", "json-schema describes every analysis."),
        ("analyze run --allow-inconclusive", "--allow-inconclusive is for --fail-on."),
        ("history run --force", "--force is for --figure."),
    ],
)
def test_options_that_exclude_each_other_are_refused_before_anything_starts(
    command: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing starts should a pair not be refused.
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("hvdprof.api.measure", lambda *_, **__: None)
    result = CliRunner().invoke(build_app(), command.split())
    assert isinstance(result.exception, UsageError)
    assert said in result.exception.message
    assert result.exception.exit_code == 2
    assert result.exception.hint


@pytest.mark.parametrize("options", ["--no-lines --light", "--light --no-trace --no-interleave"])
def test_options_that_agree_are_taken(options: str) -> None:
    result = CliRunner().invoke(build_app(), ["run", *options.split()])
    assert "exclude" not in str(result.exception)
