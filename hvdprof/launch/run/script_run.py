"""A run of the user's own script made ready: from what was typed to a manifest."""

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.launchers.choose_launcher import AUTO, HOROVODRUN, SRUN
from hvdprof.launch.launchers.elastic_job import prepare_elastic
from hvdprof.launch.plan.choices import parse_sizes
from hvdprof.launch.plan.design import AVERAGE, NO_COMPRESSION
from hvdprof.launch.plan.hosts import is_this_host, parse_hosts
from hvdprof.launch.plan.preflight import GLOO
from hvdprof.launch.plan.settings import (
    DEFAULT_STALL_WARN_S,
    BenchSettings,
    ElasticSettings,
    ModelSettings,
    ScriptSettings,
)
from hvdprof.launch.plan.validators import check_at_least, check_stall_limits
from hvdprof.launch.run.bench_run import Tools, machine_of, planned_manifest
from hvdprof.rundir.manifest import Manifest

_PYTHON = re.compile(r"python[\d.]*")
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptChoices:
    """The options of `hvdprof run` as typed; None where an option was not given.

    ``function`` is the name of a function that is run instead of a script, empty for a script;
    ``command`` then says how it was started. ``elastic`` is given where hosts come and go; ``np``
    is then the number of ranks with which the job starts.
    """

    command: tuple[str, ...]
    np: str
    hosts: str | None
    batch_size: int | None
    num_warmup_batches: int
    num_steps: int | None
    num_timeline_steps: int
    repeats: int
    trace: bool
    num_threads: int | None
    timeout_s: float
    launcher: str = AUTO
    stall_warn_s: float = DEFAULT_STALL_WARN_S
    stall_kill_s: float | None = None
    function: str = ""
    elastic: ElasticSettings | None = None


def prepare_script(
    choices: ScriptChoices, tools: Tools, *, controller: str, device: str
) -> Manifest:
    """The manifest of a run that has not started: settings, passes, surroundings.

    Raises:
        UsageError: An option cannot be used.
        EnvironmentNotReadyError: This machine cannot run it.
    """
    check_script_choices(choices)
    command = choices.command if choices.function else with_own_python(choices.command)
    elastic, waits = choices.elastic, list[str]()
    if elastic is not None:
        controller = _elastic_controller(choices, controller)
        elastic, waits = prepare_elastic(elastic, parse_sizes(choices.np))
    machine = machine_of(tools, controller=controller, device=device)
    name = choices.function or script_name(choices.command)
    settings = BenchSettings(
        sizes=parse_sizes(choices.np),
        models=(ModelSettings(name=name, batch_size=choices.batch_size or 0, image_size=0),),
        compressions=(NO_COMPRESSION,),
        reductions=(AVERAGE,),
        scaling="weak",
        num_warmup_batches=choices.num_warmup_batches,
        num_steps=choices.num_steps,
        max_seconds=None,
        repeats=choices.repeats,
        attribution=False,
        controller=machine.controller,
        launcher=choices.launcher,
        device=machine.device,
        hosts=choices.hosts,
        num_threads=choices.num_threads or 1,
        fusion_threshold_mb=None,
        cycle_time_ms=None,
        cache_capacity=None,
        data="script",
        data_dir=None,
        seed=0,
        timeout_s=choices.timeout_s,
        stall_warn_s=choices.stall_warn_s,
        stall_kill_s=choices.stall_kill_s,
        script=ScriptSettings(
            command=command,
            num_timeline_steps=choices.num_timeline_steps,
            sets_threads=choices.num_threads is not None,
            trace=choices.trace,
            is_function=bool(choices.function),
            elastic=elastic,
        ),
    )
    manifest = planned_manifest(settings, machine, tools)
    manifest.warnings += waits
    return manifest


def _elastic_controller(choices: ScriptChoices, controller: str) -> str:
    if choices.hosts is not None:
        raise UsageError("The hosts of an elastic job are those of its discovery script.")
    if choices.launcher not in (AUTO, HOROVODRUN) or controller not in (AUTO, GLOO):
        raise UsageError(
            "An elastic job is started by horovodrun with Gloo.",
            hint="Leave --launcher and --controller away.",
        )
    return GLOO


def with_own_python(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command with a bare ``python`` or ``python3`` as the one that runs hvdprof.

    Launchers look names up by paths of their own; there it may be a Python without Horovod.
    """
    return (sys.executable, *command[1:]) if command[0] in ("python", "python3") else command


def script_name(command: tuple[str, ...]) -> str:
    """What results call a command: the script's name without `.py`, or that of a module.

    ``python -u train.py --epochs 3`` is ``train``, ``python -m pkg.train`` is ``pkg.train``.
    """
    option, value = _what_runs(command)
    names = {"-m": value, "-c": "", "": Path(value).stem}
    return names[option] or Path(command[0]).stem


def script_of(command: tuple[str, ...]) -> Path | None:
    """The script that a command gives to a Python; None where it is another program.

    Neither a module (`-m`) nor code (`-c`) nor what Python reads from its input is a script.
    """
    if not _PYTHON.fullmatch(Path(command[0]).name):
        return None
    option, value = _what_runs(command)
    return Path(value) if not option and value.endswith(".py") else None


def _what_runs(command: tuple[str, ...]) -> tuple[str, str]:
    """The option by which a Python is told what it runs, ``""`` for a path, and what that is."""
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


def check_script_choices(choices: ScriptChoices) -> None:
    """Find mistakes that show without asking the machine for Horovod.

    Raises:
        UsageError: An option has a value that cannot be used, or the script is not there.
        EnvironmentNotReadyError: What is to be run is no program here.
    """
    for option, value in (
        ("--num-steps", choices.num_steps),
        ("--batch-size", choices.batch_size),
        ("--repeats", choices.repeats),
        ("--timeline-steps", choices.num_timeline_steps),
        ("--num-threads", choices.num_threads),
    ):
        if value is not None and value < 1:
            raise UsageError(f"{option} {value}: must be at least 1.", hint="hvdprof run --help")
    check_at_least((("--timeout", choices.timeout_s, 1),))
    check_stall_limits(choices.stall_warn_s, choices.stall_kill_s)
    if choices.num_warmup_batches < 0:
        raise UsageError(
            f"--num-warmup-batches {choices.num_warmup_batches}: must be at least 0.",
            hint="hvdprof run --help",
        )
    if choices.hosts is not None:
        parse_hosts(choices.hosts)
    program = choices.command[0]
    if not choices.function and shutil.which(with_own_python(choices.command)[0]) is None:
        hint = "Check the name and PATH."
        if program.endswith(".py"):
            hint = f"hvdprof run ... -- python {program}"
        raise EnvironmentNotReadyError(f"{program} is not a program that can run.", hint=hint)
    if not choices.function and _runs_here(choices):
        _check_script(choices.command)


def _runs_here(choices: ScriptChoices) -> bool:
    """Whether ranks run on this host, as far as that is known without asking anyone."""
    if choices.hosts is not None:
        return any(is_this_host(host.name) for host in parse_hosts(choices.hosts))
    return choices.elastic is None and choices.launcher != SRUN


def _check_script(command: tuple[str, ...]) -> None:
    script = script_of(command)
    if script is None or script.exists():
        return
    where = "" if script.is_absolute() else f" in {Path.cwd()}"
    raise UsageError(
        f"There is no {script}{where}, so {command[0]} would have nothing to run.",
        hint="hvdprof run ... -- python path/to/train.py ARGS",
    )
