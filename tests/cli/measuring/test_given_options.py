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
