"""Builds the options of a command from options classes, and the objects from what was typed."""

import functools
import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from hvdprof.api.options import Option, declared, default_of
from hvdprof.cli.measuring.given_options import refuse_excluding

Command = Callable[..., None]


def takes(*kinds: type) -> Callable[[Command], Command]:
    """A decorator for commands: their first parameters are objects of options classes.

    The command line gets an option for every field of the classes in place of these parameters;
    the other parameters of the command are typer's and come last.
    """

    def decorate(command: Command) -> Command:
        others = list(inspect.signature(command, eval_str=True).parameters.values())[len(kinds) :]
        fields = [[name for name, _ in declared(kind)] for kind in kinds]

        @functools.wraps(command)
        def with_options(**typed: object) -> None:
            if (context := typed.get("context")) is not None:
                refuse_excluding(typing.cast(typer.Context, context))
            objects = [
                kind(**_given(typed, names)) for kind, names in zip(kinds, fields, strict=True)
            ]
            rest = {other.name: typed[other.name] for other in others}
            command(*objects, **rest)

        parameters = [
            *(parameter for kind in kinds for parameter in _parameters(kind)),
            *(other.replace(kind=inspect.Parameter.KEYWORD_ONLY) for other in others),
        ]
        if all(other.name != "context" for other in others):
            given = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY)
            parameters.append(given.replace(annotation=typer.Context))
        # What typer reads to make its options.
        vars(with_options)["__signature__"] = inspect.Signature(parameters)
        with_options.__annotations__ = {
            parameter.name: parameter.annotation for parameter in parameters
        }
        return with_options

    return decorate


def _given(typed: dict[str, object], names: list[str]) -> dict[str, object]:
    return {
        name: tuple(value) if isinstance(value := typed[name], list) else value
        for name in names
        if typed[name] is not None
    }


def _parameters(kind: type) -> list[inspect.Parameter]:
    hints = typing.get_type_hints(kind)
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default_of(kind, name) if one.flags and not one.repeated else None,
            annotation=_annotation(hints[name], one),
        )
        for name, one in declared(kind)
    ]


def _annotation(hint: object, one: Option) -> object:
    if not one.flags:
        argument = typer.Argument(help=one.help, show_default=False)
        return Annotated[list[str] | None, argument]
    info = typer.Option(*one.flags, help=one.help, rich_help_panel=one.panel)
    return Annotated[list[str] | None if one.repeated else _typed_as(hint), info]


def _typed_as(hint: typing.Any) -> typing.Any:
    """The type that is typed: a path or text where the field takes these, else its own type."""
    kinds = typing.get_args(hint) or (hint,)
    for kind in (Path, str):
        if kind in kinds:
            return kind | None if type(None) in kinds else kind
    return hint
