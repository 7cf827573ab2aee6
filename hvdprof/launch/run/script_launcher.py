"""What starts the ranks: Horovod's launchers, or ``torchrun`` by command or imports of a script."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from hvdprof.errors import UsageError
from hvdprof.launch.launchers.batch_launch import (
    OF_TORCHRUN,
    TensorFlowForItsEngines,
    TensorFlowWorkers,
    Torchrun,
    TorchrunForDdp,
)
from hvdprof.launch.launchers.choose_launcher import find_elastic_launcher, find_launcher
from hvdprof.launch.launchers.launch_job import Launcher
from hvdprof.launch.plan.options import TENSORFLOW, TORCHRUN, WITHOUT_HOROVOD
from hvdprof.launch.plan.preflight import AUTO, require_working_directory
from hvdprof.launch.plan.run_options import RunOptions, ScriptOptions
from hvdprof.launch.plan.settings import Settings
from hvdprof.launch.run.script_command import (
    NODES,
    num_of_env,
    script_of,
    torchrun_command,
    what_runs,
)
from hvdprof.machine.install.horovod_features import (
    HorovodBuild,
    require_horovod,
    require_tensorflow,
    require_torch,
)
from hvdprof.machine.mpi import Mpi, find_mpi
from hvdprof.rundir.plan import HOROVOD_ENGINE, TF_ENGINES

S = TypeVar("S", bound=ScriptOptions)
_MOST_FILES = 100
"""Files of its own that are read; a larger program has named its engine in these."""

_OF_TORCH = "torch.distributed"
_OF_HOROVOD = "horovod"
_OF_OTHER_LAUNCHERS = ("OMPI_COMM_WORLD", "PMI_RANK", "SLURM_PROCID")
"""Variables of mpirun and srun: a script that reads one expects that launcher."""


def launcher_name(options: ScriptOptions) -> str:
    """The launcher of a script; ``torchrun`` also where its command names it.

    Raises:
        UsageError: hvdprof cannot start what the command says.
    """
    return started_by_torchrun(options)[0].launcher


def started_by_torchrun(options: S) -> tuple[S, tuple[str, ...]]:
    """The options with what a ``torchrun`` command says in their own terms; its further options.

    A script of torch.distributed gets that launcher where none is asked for. Other options are
    returned as they are.

    Raises:
        UsageError: hvdprof cannot start what the command says, or another launcher is asked for.
    """
    found = torchrun_command(options.command) if options.command else None
    if found is None:
        is_chosen = is_launcher_by_imports(options)
        return replace(options, launcher=TORCHRUN) if is_chosen else options, ()
    if options.launcher not in (AUTO, TORCHRUN):
        raise UsageError(
            f"--launcher {options.launcher} would start torchrun in every rank.",
            hint="Omit --launcher, or give the command of one rank: -- python train.py",
        )
    if found.num_nodes > 1 and options.hosts is None:
        raise UsageError(
            f"torchrun {NODES}={found.num_nodes}: hvdprof starts torchrun on the hosts itself.",
            hint="Name them: hvdprof run --hosts h1:4,h2:4 -- torchrun ...; inside a Slurm "
            "allocation: hvdprof run --launcher srun --np 8 -- python train.py",
        )
    size = options.np if options.np is not None else found.num_ranks
    # As torchrun itself, which starts one rank where the command does not say it.
    sizes = 1 if size is None else size
    started = replace(options, command=found.program, launcher=TORCHRUN, np=sizes)
    return started, found.options


def check_launcher(options: RunOptions) -> None:
    """Find options that do not go with a launcher of ranks without Horovod.

    Raises:
        UsageError: There is one.
    """
    if options.launcher not in WITHOUT_HOROVOD:
        return
    if options.launcher == TENSORFLOW and (options.hosts is not None or options.is_elastic):
        raise UsageError(
            "--launcher tf starts the workers of tf.distribute on this host alone.",
            hint="Omit --hosts and the options of elastic jobs.",
        )
    if options.controller != AUTO:
        raise UsageError(
            f"--controller {options.controller} is Horovod's.",
            hint="Omit it: the script names its backend itself, init_process_group(...)."
            if options.launcher == TORCHRUN
            else "Omit it: the script names its strategy itself.",
        )


def is_launcher_by_imports(options: ScriptOptions) -> bool:
    """Whether only the imports of a script say that ``torchrun`` starts it; nothing of it is run.

    Not with Horovod's own options, such as a controller.
    """
    is_open = options.launcher == AUTO and options.controller == AUTO and not options.is_elastic
    if not (options.command and is_open) or torchrun_command(options.command):
        return False
    return _is_of_torch_distributed(options.command)


def _is_of_torch_distributed(command: tuple[str, ...]) -> bool:
    """Whether a script and the modules beside it import torch.distributed, and none Horovod.

    False also where a file cannot be read, the command runs another program, or a file reads
    variables of ``mpirun`` or ``srun``.
    """
    script = _file_of(command)
    if script is None:
        return False
    is_of_torch, waiting, seen = False, [script], {script}
    while waiting:
        try:
            text = waiting.pop().read_text(encoding="utf-8")
            names = list(_imported(ast.parse(text)))
        except (OSError, SyntaxError, ValueError, RecursionError):
            # The launch itself reports what is wrong with it.
            return False
        if any(variable in text for variable in _OF_OTHER_LAUNCHERS):
            return False
        if any(_is_within(name, _OF_HOROVOD) for name in names):
            return False
        is_of_torch |= any(_is_within(name, _OF_TORCH) for name in names)
        beside = {one for name in names for one in _beside(script.parent, name)} - seen
        if len(seen) + len(beside) <= _MOST_FILES:
            seen |= beside
            waiting += sorted(beside)
    return is_of_torch


def _file_of(command: tuple[str, ...]) -> Path | None:
    script = script_of(command)
    if script is not None:
        return script
    option, module = what_runs(command[num_of_env(command) :])
    if option != "-m":
        return None
    return next(_beside(Path(), module), None)


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            # Of "from torch import distributed" both may be the module.
            yield from ([node.module] if node.module else [])
            of_package = f"{node.module}." if node.module else ""
            yield from (f"{of_package}{name.name}" for name in node.names)


def _is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _beside(folder: Path, name: str) -> Iterator[Path]:
    """The file of a module in a folder, where it is there."""
    place = folder.joinpath(*name.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py", place / "__main__.py"):
        if path.is_file():
            yield path


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs a sweep works with: Horovod as it is built here, and MPI where there is one."""

    horovod: HorovodBuild
    mpi: Mpi | None


def find_tools(launcher: str = AUTO) -> Tools:
    """What this interpreter's Horovod was built with and the MPI beside it.

    What ``torchrun`` starts needs PyTorch alone: without Horovod, it is asked instead. So is
    TensorFlow for its own workers.

    Raises:
        EnvironmentNotReadyError: What the launcher needs is not there or cannot be imported.
        StorageError: The working directory was deleted, in which nothing can be imported.
    """
    require_working_directory()
    if launcher in WITHOUT_HOROVOD:
        ask = require_torch if launcher == TORCHRUN else require_tensorflow
        return Tools(ask(), None)
    return Tools(require_horovod(), find_mpi())


def launcher_of(settings: Settings, tools: Tools) -> Launcher:
    """The launcher that settings name.

    Raises:
        UsageError: It cannot start ranks of this controller.
        EnvironmentNotReadyError: Its program is not there, or cannot be used here.
    """
    if settings.script is not None and settings.elastic is not None:
        return find_elastic_launcher(settings.elastic, settings.script.network_interface)
    if settings.launcher == TENSORFLOW:
        return TensorFlowWorkers()
    launcher = _without_tensorflow(settings, tools)
    return (
        TensorFlowForItsEngines(launcher) if set(settings.engines) & set(TF_ENGINES) else launcher
    )


def _without_tensorflow(settings: Settings, tools: Tools) -> Launcher:
    if settings.launcher == TORCHRUN and (
        settings.script is not None or HOROVOD_ENGINE not in settings.engines
    ):
        return Torchrun(settings.script.torchrun_options if settings.script else ())
    launcher = find_launcher(
        settings.controller, tools.mpi, settings.launcher, mpi_library=tools.horovod.mpi_library
    )
    return TorchrunForDdp(launcher) if set(settings.engines) & set(OF_TORCHRUN) else launcher
