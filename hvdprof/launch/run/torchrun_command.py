"""The command of a user's training that itself starts ranks by ``torchrun``."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from hvdprof.errors import UsageError
from hvdprof.launch.plan.options import TORCHRUN
from hvdprof.launch.plan.preflight import AUTO
from hvdprof.launch.plan.run_options import RunOptions, ScriptOptions
from hvdprof.launch.run.script_command import num_of_env, what_runs

S = TypeVar("S", bound=ScriptOptions)

_MODULES = ("torch.distributed.run", "torch.distributed.launch")

_SIZE = "--nproc-per-node"
_NODES = "--nnodes"
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

_WITH_VALUE = (_SIZE, _NODES, *_DECIDED, *_OWN)
_MODULE, _NO_PYTHON = ("-m", "--module"), "--no-python"
_OWN_FLAGS = ("--virtual-local-rank",)
_FLAGS = (*_MODULE, _NO_PYTHON, "--standalone", "--use-env", "--run-path", *_OWN_FLAGS)


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
    nodes = [_nodes(text) for text in given.get(_NODES, ())][-1:] or [1]
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


def launcher_name(options: ScriptOptions) -> str:
    """The launcher of a script; ``torchrun`` also where its command names it.

    Raises:
        UsageError: hvdprof cannot start what the command says.
    """
    return started_by_torchrun(options)[0].launcher


def started_by_torchrun(options: S) -> tuple[S, tuple[str, ...]]:
    """The options with what a ``torchrun`` command says in their own terms; its further options.

    Options without such a command are returned as they are.

    Raises:
        UsageError: hvdprof cannot start what the command says, or another launcher is asked for.
    """
    found = torchrun_command(options.command) if options.command else None
    if found is None:
        return options, ()
    if options.launcher not in (AUTO, TORCHRUN):
        raise UsageError(
            f"--launcher {options.launcher} would start torchrun in every rank.",
            hint="Omit --launcher, or give the command of one rank: -- python train.py",
        )
    if found.num_nodes > 1 and options.hosts is None:
        raise UsageError(
            f"torchrun {_NODES}={found.num_nodes}: hvdprof starts torchrun on the hosts itself.",
            hint="Name them: hvdprof run --hosts h1:4,h2:4 -- torchrun ...; inside a Slurm "
            "allocation: hvdprof run --launcher srun --np 8 -- python train.py",
        )
    size = options.np if options.np is not None else found.num_ranks
    # As torchrun itself, which starts one rank where the command does not say it.
    sizes = 1 if size is None else size
    started = replace(options, command=found.program, launcher=TORCHRUN, np=sizes)
    return started, found.options


def check_torchrun(options: RunOptions) -> None:
    """Find options that do not go with ``torchrun``.

    Raises:
        UsageError: There is one.
    """
    if options.launcher != TORCHRUN:
        return
    if options.controller != AUTO:
        raise UsageError(
            f"--controller {options.controller} is Horovod's.",
            hint="The script names its backend itself: init_process_group(...)",
        )


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
        f"torchrun {_NODES}={text} is no fixed number of nodes.",
        hint="Name the hosts: hvdprof run --hosts h1:4,h2:4 -- torchrun --nnodes 2 ...",
    )
