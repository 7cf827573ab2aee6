"""The command of a user's training: which Python or ``torchrun`` runs which script or module."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import UsageError

_PYTHON = re.compile(r"python[\d.]*")
_OPTIONS_OF_ENV = ("-u", "--unset", "-C", "--chdir")
"""Those whose value is the next word."""

_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_SIZE = "--nproc-per-node"
NODES = "--nnodes"
_HINT = "hvdprof run -- torchrun --nproc-per-node 2 train.py"
_DECIDED = (
    *("--max-restarts", "--monitor-interval", "--node-rank"),
    *("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf"),
    *("--master-addr", "--master-port", "--local-addr"),
)
"""Options with a value that hvdprof decides: where ranks meet, and that none is restarted."""

_OWN = (
    *("--role", "--log-dir", "--redirects", "-r", "--tee", "-t", "--start-method"),
    *("--local-ranks-filter", "--log-line-prefix-template", "--event-log-handler", "--logs-specs"),
    *("--numa-binding", "--signals-to-handle", "--duplicate-stdout-filters"),
    *("--duplicate-stderr-filters", "--shutdown-timeout"),
)
"""Options with a value that stay as the user gave them."""

_WITH_VALUE = (_SIZE, NODES, *_DECIDED, *_OWN)
_MODULE, _NO_PYTHON = ("-m", "--module"), "--no-python"
_OWN_FLAGS = ("--virtual-local-rank",)
_FLAGS = (*_MODULE, _NO_PYTHON, "--standalone", "--use-env", "--run-path", *_OWN_FLAGS)


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


@dataclass(frozen=True, slots=True)
class TorchrunCommand:
    """What ``torchrun`` was asked for.

    ``program`` is what one rank runs, ``num_ranks`` their number on all its nodes, None where the
    command does not say it, and ``options`` those options that stay.
    """

    program: tuple[str, ...]
    num_ranks: int | None
    options: tuple[str, ...]
    num_nodes: int = 1


def torchrun_command(command: tuple[str, ...]) -> TorchrunCommand | None:
    """The parts of a command that is one of ``torchrun``; None where it is another program.

    Also ``python -m torch.distributed.run``, and with ``env NAME=VALUE`` in front.

    Raises:
        UsageError: It names no fixed number of nodes or ranks, no program, or an option that is
            not known.
    """
    start = num_of_env(command)
    first = _num_of_launcher(command[start:])
    if not first:
        return None
    given, program = _split(command[start + first :])
    if not program:
        raise UsageError("The torchrun command names no script.", hint=_HINT)
    nodes = [_nodes(text) for text in given.get(NODES, ())][-1:] or [1]
    sizes = [_size(text) * nodes[0] for text in given.get(_SIZE, ())]
    python = ("python", "-m") if any(name in given for name in _MODULE) else ("python",)
    return TorchrunCommand(
        program=(*command[:start], *(() if _NO_PYTHON in given else python), *program),
        num_ranks=sizes[-1] if sizes else None,
        options=(
            *(word for name in _OWN for value in given.get(name, ()) for word in (name, value)),
            *(name for name in _OWN_FLAGS if name in given),
        ),
        num_nodes=nodes[0],
    )


def _split(words: tuple[str, ...]) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """The options in front of a program with their values, none for a flag, and the program."""
    given: dict[str, list[str]] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            return given, (word, *rest)
        name, is_joined, value = word.partition("=")
        if name.startswith("--"):
            # torchrun takes both spellings.
            name = name.replace("_", "-")
        values = given.setdefault(name, [])
        if name in _WITH_VALUE:
            values.append(value if is_joined else next(rest, ""))
        elif name not in _FLAGS:
            raise UsageError(
                f"torchrun {name}: not an option that hvdprof knows.",
                hint="hvdprof run --launcher torchrun --np 1,2 -- python train.py",
            )
    return given, ()


def _num_of_launcher(command: tuple[str, ...]) -> int:
    """How many words name ``torchrun``; 0 where the command is another program."""
    if Path(command[0]).name == "torchrun":
        return 1
    option, value = what_runs(command)
    if option == "-m" and value in _MODULES:
        return next(place for place, word in enumerate(command, start=1) if word.endswith(value))
    return 0


def _size(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise UsageError(
        f"torchrun {_SIZE}={text} is no fixed number of ranks.",
        hint="Give the numbers of ranks to hvdprof: --np 1,2,4",
    )


def _nodes(text: str) -> int:
    low, _, high = text.partition(":")
    if low.isdecimal() and int(low) > 0 and high in ("", low):
        return int(low)
    raise UsageError(
        f"torchrun {NODES}={text} is no fixed number of nodes.",
        hint="Name the hosts: hvdprof run --hosts h1:4,h2:4 -- torchrun --nnodes 2 ...",
    )
