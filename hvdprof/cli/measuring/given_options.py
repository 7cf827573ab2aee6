"""Which options the command line holds, where some have no effect beside others."""

from collections.abc import Collection

import typer


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
