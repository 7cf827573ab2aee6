"""`hvdprof tune` without launches: what it refuses, and results that are shown again."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from hvdprof import api
from hvdprof.api.tuning.tuning_folder import write_tuning
from hvdprof.cli.main import build_app
from hvdprof.errors import InterruptedRunError, StorageError, UnreadableInputError, UsageError
from tests.builders.finished_tuning import nothing_to_gain, tuning


def invoke(*arguments):
    return CliRunner().invoke(build_app(), ["tune", *map(str, arguments)])


def error_of(*arguments):
    return invoke(*arguments).exception


@pytest.mark.heavy
def test_an_earlier_result_is_shown_again_in_every_format(tmp_path):
    write_tuning(tuning(), tmp_path)
    shown = invoke(tmp_path)
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[1] == tuning().line
    assert json.loads(invoke(tmp_path, "--format", "json").stdout)["line"] == tuning().line
    assert invoke(tmp_path, "--format", "markdown").stdout.startswith("**Set ")


@pytest.mark.heavy
def test_a_file_gets_the_format_of_its_name_and_is_not_overwritten(tmp_path):
    write_tuning(nothing_to_gain(), tmp_path)
    page = tmp_path / "page.md"
    assert invoke(tmp_path, "-o", page).exit_code == 0
    assert page.read_text().startswith("**Nothing to gain")
    assert isinstance(error_of(tmp_path, "-o", page), StorageError)
    assert invoke(tmp_path, "-o", page, "--force").exit_code == 0


def test_a_folder_without_a_result_is_refused(tmp_path):
    assert isinstance(error_of(tmp_path), UnreadableInputError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "script is required"),
        (("--models", "mnist", "--", "python", "a.py"), "Either a script or --models"),
        (("--margin", "x", "--", "python", "a.py"), "not a percentage"),
        (("--margin", "0%", "--", "python", "a.py"), "not between 0 and 100 %"),
        (("--format", "csv", "--", "python", "a.py"), "not known"),
    ],
)
def test_what_cannot_be_tuned_has_one_message(arguments, message):
    error = error_of(*arguments)
    assert isinstance(error, UsageError)
    assert message in error.message


def test_a_tuning_that_ended_early_is_printed_before_its_error(monkeypatch):
    class Interrupted:
        def __init__(self, options, **_):
            assert options.command == ("python", "a.py")
            assert options.try_ == ("A=1", "B=2")
            assert options.allow_numerics
            assert str(options.output) == "own"
            self.present = SimpleNamespace(wait_for_idle=lambda on_look: 0.0)

        def measure(self):
            message = "Interrupted after 3 of 12 launches. Ended by SIGINT."
            return nothing_to_gain(), InterruptedRunError(message)

    monkeypatch.setattr(api, "TuningMeasurement", Interrupted)
    ended = invoke(
        *("-q", "--allow-numerics", "--try", "A=1", "--try", "B=2"),
        *("-o", "own", "--", "python", "a.py"),
    )
    assert isinstance(ended.exception, InterruptedRunError)
    assert ended.stdout.startswith("Nothing to gain")
    assert ended.stderr == (
        "hvdprof: Interrupted after 3 of 12 launches. Ended by SIGINT. The result so far:\n"
    )
