"""The words of a command line: what follows an option, and where a command of the user begins."""

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

from hvdprof.errors import UsageError

if TYPE_CHECKING:
    from typer._click.core import Context, Parameter
    from typer._coercion import RuntimeParam
    from typer.core import _TyperParameter

_SEPARATOR, _HELP = "--", "--help"


class Command(TyperCommand):
    """A command of typer whose help says what follows an option: nothing after a flag."""

    def get_params(self, ctx: "Context") -> "list[Parameter]":
        """As typer's, without ``<bool>`` and ``<list[str]>``, which are not typed."""
        return _with_words(super().get_params(ctx))


class Group(TyperGroup):
    """The commands, with the same help."""

    def get_params(self, ctx: "Context") -> "list[Parameter]":
        """As ``Command``."""
        return _with_words(super().get_params(ctx))


def _with_words(params: "list[Parameter]") -> "list[Parameter]":
    for param in params:
        make = getattr(param, "get_runtime_param", None)
        if make is not None and not isinstance(make, _Coercion):
            setattr(param, "get_runtime_param", _Coercion(make))  # noqa: B010 - not in all versions
        if getattr(param, "is_flag", False):
            param.metavar = ""
        elif param.metavar is None and getattr(param, "multiple", False):
            param.metavar = "<value>"
    return params


class _Coercion:
    """typer's conversion of values, without pydantic where it has nothing to convert.

    Importing pydantic and making its adapters takes a third of a short command.
    """

    def __init__(self, make: "Callable[[], RuntimeParam]") -> None:
        self._make = make

    def __call__(self) -> "_Coercion":
        """Itself: typer asks for the conversion of a parameter, then for that of a value."""
        return self

    def coerce(self, value: Any, param: "_TyperParameter", ctx: "Context") -> object:
        """As typer's."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        annotation = param.type_descriptor.annotation
        # No command has a condition on its paths that typer would check.
        if annotation == list[Path]:
            return [Path(path) for path in value]
        if type(value) is annotation and value == param.default:
            return value
        return self._make().coerce(value, param=param, ctx=ctx)


class StartsCommand(Command):
    """A command of typer whose last words are a command: its options are not those of hvdprof."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """As typer's, where ``--`` before the command may be left out."""
        takes_value = {
            flag: not getattr(option, "is_flag", False)
            for option in self.get_params(ctx)
            for flag in (*option.opts, *option.secondary_opts)
            if flag.startswith("-")
        }
        # `compare` without --run takes two paths.
        if "--run" not in takes_value or "--run" in args:
            args = separated(args, takes_value, ctx.command_path)
        return super().parse_args(ctx, args)


def separated(words: Sequence[str], takes_value: Mapping[str, bool], ours: str) -> list[str]:
    """The words with ``--`` before the command, where it begins with a program or a file.

    Args:
        words: What was typed after the name of hvdprof's command.
        takes_value: The options of hvdprof's command, and whether a value follows each.
        ours: The words before: ``hvdprof run``.

    Raises:
        UsageError: Without ``--`` it is open whose options those after the command are.
    """
    start = _start_of_command(words, takes_value)
    if start is None:
        return list(words)
    before, command = words[:start], words[start:]
    options = [word for word in command[1:] if word.startswith("-") and word != _SEPARATOR]
    # `tune` takes a folder, too.
    if not options or _HELP in options or _is_kind(command[0], Path.is_dir):
        return list(words)
    own, others = _parted(command, takes_value)
    if not own and (shutil.which(command[0]) or _is_kind(command[0], Path.is_file)):
        return [*before, _SEPARATOR, *command]
    of_script = f"{ours} {shlex.join([*before, _SEPARATOR, *command])}"
    if not own:
        raise UsageError(
            f"{options[0]} stands after {command[0]}: put -- before the command.", hint=of_script
        )
    raise UsageError(
        f"{own[0]} stands after {command[0]}, and {ours} has an option of this name: put -- before "
        "the command.",
        hint=f"{ours} {shlex.join([*before, *own, _SEPARATOR, *others])}\n"
        f"  Or, if it is an option of the script: {of_script}",
    )


def _parted(command: Sequence[str], takes_value: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Options of hvdprof with their values, and the other words."""
    own: list[str] = []
    others: list[str] = []
    words = iter(command)
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in takes_value:
            others.append(word)
            continue
        own.append(word)
        if takes_value[name] and not equals:
            own += [value for value in [next(words, None)] if value is not None]
    return own, others


def _is_kind(word: str, kind: Callable[[Path], bool]) -> bool:
    """Whether a path is of a kind; one that is too long is of none."""
    try:
        return kind(Path(word))
    except OSError:
        return False


def _start_of_command(words: Sequence[str], takes_value: Mapping[str, bool]) -> int | None:
    """The place of the first word that is neither an option nor its value; None where marked."""
    places = iter(range(len(words)))
    for place in places:
        word = words[place]
        if word == _SEPARATOR:
            return None
        if not word.startswith("-"):
            return place
        if word.startswith("--") and word.partition("=")[0] not in takes_value:
            # An option that does not exist: its parser says so.
            return None
        if takes_value.get(word):
            next(places, None)
    return None
