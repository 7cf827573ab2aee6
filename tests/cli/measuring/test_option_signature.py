"""The options of a command are those of its options class."""

from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from hvdprof.api.options import BenchOptions, RunOptions, arguments_of, declared
from hvdprof.cli.main import build_app
from hvdprof.cli.measuring.command_options import CommandOptions
from hvdprof.cli.measuring.option_signature import takes

CASES: tuple[BenchOptions | RunOptions, ...] = (
    BenchOptions(),
    BenchOptions(np="1,2", models="mnist", fp16_allreduce=True, net=False, max_seconds=0.5, seed=7),
    BenchOptions(preset="quick", data_dir="digits", output="runs/a b", timeout_s=10, name="x"),
    RunOptions(),
    RunOptions(command=("python", "train.py", "--np", "3"), np="2", trace=False, num_steps=30),
    RunOptions(min_np=1, max_np=4, host_discovery_script="./hosts", command=("./train",)),
)


@pytest.mark.parametrize("options", CASES)
def test_what_is_typed_becomes_the_same_options(options: BenchOptions | RunOptions) -> None:
    seen: list[Any] = []
    app = typer.Typer()

    @app.command()
    @takes(type(options), CommandOptions)
    def command(given: Any, chosen: CommandOptions, context: typer.Context) -> None:
        """Keeps what it is called with."""
        seen.extend((given, chosen, context.command.name))

    result = CliRunner().invoke(app, ["--quiet", *arguments_of(options)])
    assert result.exit_code == 0, result.output
    assert seen == [options, CommandOptions(silent=True), "command"]


@pytest.mark.parametrize(("name", "kind"), [("bench", BenchOptions), ("run", RunOptions)])
def test_every_field_is_an_option_of_the_command_with_its_help(name: str, kind: type) -> None:
    command = get_command(build_app()).commands[name]  # type: ignore[attr-defined]
    parameters = {parameter.name: parameter for parameter in command.params}
    for field, option in declared(kind):
        parameter = parameters[field]
        # Arguments of older versions of typer keep their help elsewhere.
        assert parameter.help == option.help or not option.flags
        if option.flags:
            flags = [part for flag in option.flags for part in flag.split("/")]
            assert [*parameter.opts, *parameter.secondary_opts] == flags


@pytest.mark.heavy
def test_help_is_grouped_in_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shown = CliRunner().invoke(build_app(), ["run", "--help"]).output
    titles = ("Design", "Ranks and hosts", "Elastic jobs", "Measurement", "Output")
    places = [shown.index(f" {title} ") for title in titles]
    assert places == sorted(places)


@pytest.mark.heavy
def test_a_misspelt_option_suggests_the_right_one() -> None:
    shown = CliRunner().invoke(build_app(), ["bench", "--repeat", "3"])
    assert shown.exit_code == 2
    assert "--repeats" in shown.output
