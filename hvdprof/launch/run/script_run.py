"""Prepares the run of a training that is the user's: a script, or a function from Python."""

import shlex
import shutil
from dataclasses import replace
from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.launchers.elastic_job import prepare_elastic
from hvdprof.launch.plan.bench_options import AVERAGE, NO_COMPRESSION
from hvdprof.launch.plan.bench_settings import Machine
from hvdprof.launch.plan.environment import parse_variables
from hvdprof.launch.plan.hosts import is_this_host, parse_hosts
from hvdprof.launch.plan.options import HOROVODRUN, IN_A_JOB, TENSORFLOW, TORCHRUN, check_options
from hvdprof.launch.plan.preflight import (
    AUTO,
    GLOO,
    parse_duration,
    parse_precision,
    parse_sizes,
    require_working_directory,
)
from hvdprof.launch.plan.run_options import (
    MOST_REPEATS,
    FunctionOptions,
    RunOptions,
    TrainingOptions,
)
from hvdprof.launch.plan.settings import (
    LONGEST_TURN_S,
    OF_ELASTIC,
    OF_FUNCTION,
    OF_TENSORFLOW,
    ModelSettings,
    ScriptSettings,
    Settings,
    reason_by_place,
)
from hvdprof.launch.plan.time_budget import fit_budget
from hvdprof.launch.run.bench_run import machine_of, planned_manifest
from hvdprof.launch.run.run_folder import runs_folder
from hvdprof.launch.run.script_command import script_name, script_of, with_own_python
from hvdprof.launch.run.script_launcher import Tools, check_launcher, started_by_torchrun
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.plan import COLLECTIVES_ENGINE, HOROVOD_ENGINE, TF_MULTIWORKER

_ENGINES = {TORCHRUN: COLLECTIVES_ENGINE, TENSORFLOW: TF_MULTIWORKER}
"""Of a script that is not Horovod's, until its ranks name it."""


def prepare_script(options: RunOptions, tools: Tools) -> Manifest:
    """The manifest of a run that has not started: settings, passes, provenance.

    Raises:
        UsageError: An option cannot be used, or there is no script.
        EnvironmentNotReadyError: This machine cannot run it.
    """
    check_run_options(options)
    asked, (options, torchrun_options) = options, started_by_torchrun(options)
    sizes = sizes_of(options)
    network, waits, controller = options.network_interface, list[str](), options.controller
    if options.is_elastic:
        if _stopping(options) != (None, None):
            raise UsageError(
                "An elastic job has no efficiency that more launches narrow.",
                hint="Omit --precision and --budget.",
            )
        if options.hosts is not None:
            raise UsageError("The hosts of an elastic job are those of its discovery script.")
        if options.launcher not in (AUTO, HOROVODRUN) or options.controller not in (AUTO, GLOO):
            raise UsageError(
                "An elastic job is started by horovodrun with Gloo.",
                hint="Omit --launcher and --controller.",
            )
        controller = GLOO
        network, waits = prepare_elastic(options, sizes)
    name = script_name(options.command)
    script = ScriptSettings(
        command=with_own_python(options.command),
        network_interface=network,
        torchrun_options=torchrun_options,
    )
    settings, machine = _settings(options, sizes, script, name, tools, controller)
    manifest = planned_manifest(replace(settings, options=asked), machine, tools)
    manifest.name = options.name or name
    manifest.warnings += waits
    fit_budget(manifest, runs_folder(options.folder), is_given=options.budget is not None)
    return manifest


def prepare_function(
    options: FunctionOptions, name: str, tools: Tools, *, controller: str
) -> Manifest:
    """The manifest of a function that has not started.

    Raises:
        UsageError: An option cannot be used.
        EnvironmentNotReadyError: This machine cannot run it.
    """
    _check_training(options)
    command = (options.launcher, name)
    script = ScriptSettings(command=command, is_function=True)
    sizes = parse_sizes(options.np)
    manifest = planned_manifest(*_settings(options, sizes, script, name, tools, controller), tools)
    manifest.name, manifest.command = options.name or name, list(command)
    return manifest


def _settings(
    options: RunOptions | FunctionOptions,
    sizes: tuple[int, ...],
    script: ScriptSettings,
    name: str,
    tools: Tools,
    controller: str,
) -> tuple[Settings, Machine]:
    machine = machine_of(
        tools, controller=controller, device=options.device, launcher=options.launcher
    )
    model = ModelSettings(name=name, batch_size=options.batch_size or 0, image_size=0)
    precision, budget_s = _stopping(options)
    is_asked_for = not isinstance(options, RunOptions) or options.interleave
    # A window may hold steps of a turn and steps before it.
    takes_turns = len(sizes) > 1 and is_asked_for and not options.light
    no_turns = _no_turns(options, machine.device) if takes_turns else ""
    exact = precision is None and budget_s is None
    settings = Settings(
        options=options,
        sizes=sizes,
        models=(model,),
        compressions=(NO_COMPRESSION,),
        reductions=(AVERAGE,),
        num_warmup_batches=options.num_warmup_batches,
        max_seconds=None,
        repeats=options.repeats if exact or options.repeats > 1 else MOST_REPEATS,
        precision=precision,
        budget_s=budget_s,
        controller=machine.controller,
        launcher=options.launcher,
        device=machine.device,
        hosts=options.hosts,
        num_threads=options.num_threads or 1,
        data="script",
        turn_s=LONGEST_TURN_S if takes_turns and not no_turns else None,
        no_turns=no_turns,
        engines=(_ENGINES.get(options.launcher, HOROVOD_ENGINE),),
        script=script,
    )
    return settings, machine


def _no_turns(options: TrainingOptions, device: str) -> str:
    """Why launches of the training cannot be resident together; empty where they can."""
    if not isinstance(options, RunOptions):
        return OF_FUNCTION
    if options.is_elastic:
        return OF_ELASTIC
    if options.launcher == TENSORFLOW:
        return OF_TENSORFLOW
    is_elsewhere = bool(options.hosts) or options.launcher in IN_A_JOB
    return reason_by_place(is_elsewhere=is_elsewhere, device=device)


def _stopping(options: TrainingOptions) -> tuple[float | None, float | None]:
    """The precision and the seconds at which the run stops; None for what was not asked for."""
    if not isinstance(options, RunOptions):
        return None, None
    given = options.precision, options.budget
    return (
        None if given[0] is None else parse_precision("--precision", given[0]),
        None if given[1] is None else parse_duration("--budget", given[1]),
    )


def sizes_of(options: RunOptions) -> tuple[int, ...]:
    """The numbers of ranks that a script is run on; an elastic job starts with its least number.

    Raises:
        UsageError: They are not given, or are no positive whole numbers; or options of an elastic
            job are given without a script that names its hosts.
    """
    options, _ = started_by_torchrun(options)
    _check_elastic(options)
    if options.np is not None:
        return parse_sizes(options.np)
    if not options.is_elastic:
        raise _incomplete(options)
    return (options.least_np,)


def _incomplete(options: RunOptions) -> UsageError:
    np = options.np if isinstance(options.np, str) else "1,2"
    missing = [] if options.np else ["the number of ranks (--np)"]
    missing += [] if options.command else ["the script"]
    return UsageError(
        f"Missing: {' and '.join(missing)}.",
        hint=f"hvdprof run --np {np} -- {shlex.join(options.command) or 'python train.py'}",
    )


def _check_elastic(options: RunOptions) -> None:
    of_elastic = (
        *(options.min_np, options.max_np, options.slots, options.network_interface),
        *(options.elastic_timeout_s, options.reset_limit),
    )
    if not options.is_elastic and any(value is not None for value in of_elastic):
        raise UsageError(
            "An elastic job needs a script that names its hosts.",
            hint="hvdprof run --min-np 1 --max-np 4 --host-discovery-script ./discover.sh -- ...",
        )


def check_run_options(options: RunOptions) -> None:
    """Find mistakes that show without asking the machine for Horovod.

    Raises:
        UsageError: An option has a value that cannot be used, or the script is not there.
        EnvironmentNotReadyError: The program cannot be started here.
        StorageError: The working directory was deleted.
    """
    require_working_directory()
    check_script_options(options)
    options, _ = started_by_torchrun(options)
    program = options.command[0]
    if shutil.which(with_own_python(options.command)[0]) is None:
        hint = "Check the name and PATH."
        if program.endswith(".py"):
            if not Path(program).exists() and _runs_here(options):
                raise _no_script(Path(program))
            hint = f"hvdprof run ... -- python {program}"
        raise EnvironmentNotReadyError(f"{program} is not a program that can run.", hint=hint)
    if _runs_here(options):
        _check_script(options.command)


def check_script_options(options: RunOptions) -> None:
    """Find mistakes that show without the script, which may lie on another machine.

    Raises:
        UsageError: An option has a value that cannot be used, or there is no command.
    """
    if not options.command:
        raise _incomplete(options)
    options, _ = started_by_torchrun(options)
    check_launcher(options)
    sizes_of(options)
    _stopping(options)
    parse_variables("--env", options.env)
    _check_training(options)


def _check_training(options: TrainingOptions) -> None:
    check_options(options)
    if options.hosts is not None:
        parse_hosts(options.hosts)


def _runs_here(options: RunOptions) -> bool:
    """Whether ranks run on this host, as far as this host knows."""
    if options.hosts is not None:
        return any(is_this_host(host.name) for host in parse_hosts(options.hosts))
    return not options.is_elastic and options.launcher not in IN_A_JOB


def _check_script(command: tuple[str, ...]) -> None:
    script = script_of(command)
    if script is None or script.exists():
        return
    raise _no_script(script)


def _no_script(script: Path) -> UsageError:
    where = "" if script.is_absolute() else f" in {Path.cwd()}"
    return UsageError(
        f"The file {script} does not exist{where}.",
        hint="hvdprof run ... -- python path/to/train.py ARGS",
    )
