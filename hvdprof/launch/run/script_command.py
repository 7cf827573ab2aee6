"""The command of a user's training: which Python runs it, and which script, module or code.

Tested in ``tests/launch/run/test_script_run.py``.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_PYTHON = re.compile(r"python[\d.]*")
_OPTIONS_OF_ENV = ("-u", "--unset", "-C", "--chdir")
"""Those whose value is the next word."""

_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def with_own_python(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command with a bare ``python`` or ``python3`` as the one that runs hvdprof.

    Launchers search their own PATH, where ``python`` may be one without Horovod.
    """
    start = num_of_env(command)
    if command[start] not in ("python", "python3"):
        return command
    return (*command[:start], sys.executable, *command[start + 1 :])


def variables_of_env(command: tuple[str, ...]) -> tuple[str, ...]:
    """The words of ``env`` in front of a command that change its environment; empty for none."""
    return tuple(command[1 : num_of_env(command)])


def script_name(command: tuple[str, ...]) -> str:
    """The name of a command in results: the script without `.py`, or the module.

    ``python -u train.py --epochs 3`` is ``train``, ``python -m pkg.train`` is ``pkg.train``, and
    ``env X=1 python train.py`` is ``train``.
    """
    command = command[num_of_env(command) :]
    option, value = what_runs(command)
    names = {"-m": value, "-c": "", "": Path(value).stem}
    return names[option] or Path(command[0]).stem


def script_of(command: tuple[str, ...]) -> Path | None:
    """The script that a command gives to a Python; None where it is another program.

    Neither a module (`-m`) nor code (`-c`) nor what Python reads from its input is a script.
    """
    command = command[num_of_env(command) :]
    if not _PYTHON.fullmatch(Path(command[0]).name):
        return None
    option, value = what_runs(command)
    return Path(value) if not option and value.endswith(".py") else None


def num_of_env(command: tuple[str, ...]) -> int:
    """How many words of ``env`` and its variables stand before the command that it runs."""
    if Path(command[0]).name != "env":
        return 0
    words = iter(range(1, len(command)))
    for place in words:
        if command[place] in _OPTIONS_OF_ENV:
            next(words, None)
        elif not command[place].startswith("-") and "=" not in command[place]:
            return place
    return 0


def what_runs(command: tuple[str, ...]) -> tuple[str, str]:
    """The option that says what a Python runs, ``-m``, ``-c`` or ``""`` for a path; its value."""
    words = iter(command[1:])
    for word in words:
        if word == "-":
            break
        if not word.startswith("-"):
            return "", word
        if word in _OPTIONS_WITH_VALUE:
            next(words, None)
            continue
        for place, letter in enumerate(_letters(word), start=2):
            if letter in "mc":
                return f"-{letter}", word[place:] or next(words, "")
    return "", ""


def _letters(word: str) -> Iterator[str]:
    """The options without a value that stand together in a word, and the first with one."""
    for letter in "" if word.startswith("--") else word[1:]:
        yield letter
        if letter in "mcWX":
            return
