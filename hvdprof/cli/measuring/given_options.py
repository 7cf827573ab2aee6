"""Which options the command line holds, where some have no effect beside others."""

from collections.abc import Collection

import typer

from hvdprof.errors import UsageError

_ANY = object()
_EXCLUDING = (
    (("lines_hz", _ANY), ("no_lines", True)),
    (("light", True), ("trace", True)),
    (("light", True), ("interleave", True)),
    (("num_timeline_steps", _ANY), ("trace", False)),
    (("num_timeline_steps", _ANY), ("light", True)),
    (("data", _ANY), ("data_dir", _ANY)),
    (("pod_ranks", _ANY), ("kind", "trainjob")),
)
"""Parameters with the values at which one of both has no effect."""

_NEEDED = dict.fromkeys(("image", "claim", "namespace", "pod_ranks"), "kind")
"""Parameters without an effect where another one is not given."""


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line holds a parameter, and not its default alone."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def given_options(context: typer.Context, without: Collection[str]) -> list[str]:
    """The options on the command line as they are written, ``--np``.

    Args:
        context: The context of the command.
        without: Names of parameters that may be given.
    """
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if str(parameter.name) not in without and is_given(context, str(parameter.name))
    ]


def refuse_excluding(context: typer.Context) -> None:
    """Check that no option on the command line takes away the effect of another one.

    Raises:
        UsageError: One does, or the option that it belongs to is missing.
    """
    for pair in _EXCLUDING:
        if all(
            is_given(context, name) and value in (_ANY, context.params[name])
            for name, value in pair
        ):
            first, second = (_written(context, name, value) for name, value in pair)
            raise UsageError(f"{first} and {second} exclude each other.", hint="Omit one of them.")
    for name, needed in _NEEDED.items():
        if is_given(context, name) and context.params[needed] is None:
            flag, other = (_written(context, one) for one in (name, needed))
            raise UsageError(f"{flag} is for {other}.", hint=f"Omit it, or add {other}.")


def _written(context: typer.Context, name: str, value: object = _ANY) -> str:
    """A parameter as it stands on the command line."""
    (one,) = [one for one in context.command.params if one.name == name]
    flag = one.secondary_opts[0] if value is False else one.opts[0]
    return f"{flag} {value}" if isinstance(value, str) else flag
