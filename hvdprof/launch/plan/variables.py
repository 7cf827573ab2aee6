"""Variables that the user sets for the ranks.

Tested in ``tests/launch/plan/test_compare_options.py``.
"""

from collections.abc import Sequence

from hvdprof.errors import UsageError
from hvdprof.launch.plan.environment import sets_itself
from hvdprof.rundir.ddp_format import BUCKET_CAP, DDP_ARGUMENTS, ddp_argument


def parse_variables(flag: str, given: Sequence[str]) -> dict[str, str]:
    """The variables of ``NAME=VALUE`` texts; the last of one name counts.

    Raises:
        UsageError: As ``variable_pairs``.
    """
    return dict(variable_pairs(flag, given))


def variable_pairs(flag: str, given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Names and values of ``NAME=VALUE`` texts, in their order; a name may occur several times.

    Args:
        flag: The option that messages name.
        given: The texts.

    Raises:
        UsageError: A text has no name or no ``=``, names a variable that hvdprof sets itself, or
            gives DDP a value that it cannot have.
    """
    found: list[tuple[str, str]] = []
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(
                f"{flag} {text!r} is not NAME=VALUE.", hint=f"{flag} HOROVOD_CYCLE_TIME=1"
            )
        if sets_itself(name):
            raise UsageError(
                f"{flag} {name}: hvdprof sets this variable itself in every launch.",
                hint="Omit it.",
            )
        _check_argument(flag, name, value)
        found.append((name, value))
    return tuple(found)


def _check_argument(flag: str, name: str, value: str) -> None:
    if name not in DDP_ARGUMENTS:
        return
    try:
        ddp_argument(name, value)
    except ValueError as error:
        example = "25" if name == BUCKET_CAP else "1"
        raise UsageError(f"{flag}: {error}.", hint=f"{flag} {name}={example}") from error
