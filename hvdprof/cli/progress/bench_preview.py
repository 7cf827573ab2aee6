"""What a measurement is about to do, shown before it starts."""

import shlex
from collections.abc import Sequence
from typing import IO

from hvdprof import api, units

_KINDS = {
    "torch": "baseline without Horovod",
    "throughput": "measures the speed, without a timeline",
    "trace": "writes Horovod's timeline",
    "attribution": "writes Horovod's timeline without the response cache",
    "ddp": "PyTorch's DistributedDataParallel instead of Horovod",
}
_KINDS_OF_TORCH = {
    "throughput": "measures the speed, without PyTorch's Flight Recorder",
    "trace": "notes with PyTorch's Flight Recorder when each rank submits each collective",
}


def announce(measurement: "api.Measurement", stream: IO[str]) -> None:
    """Write the run directory, the plan, the skipped configurations with reasons, and warnings."""
    stream.write(f"hvdprof: measuring into {measurement.folder}\n")
    for line in _plan(measurement):
        stream.write(f"  {line}\n")
    if measurement.settings.script is not None:
        files = f"{measurement.folder}/passes/*/stdout.txt, stderr.txt"
        stream.write(f"  Output of the ranks: {files}\n")
    for reason, cells in measurement.skipped().items():
        stream.write(f"skipped: {', '.join(cells)}: {reason}\n")
    for warning in [*_oversubscribed(measurement), *measurement.manifest.warnings]:
        stream.write(f"! {warning}\n")
    if measurement.has_secret:
        stream.write(
            "! The command of the script seems to hold a secret. --resume needs the command, so "
            f"{measurement.resume_path} keeps it, for your eyes only. Pass secrets in the "
            "environment: no secret of the environment is written.\n"
        )


def print_launches(measurement: "api.Measurement", stream: IO[str]) -> None:
    """Write what is launched, then every command with its environment, as shell text.

    Variables that all launches share are exported once, before the first command.
    """
    launches = measurement.launches()
    stream.write("".join(f"# {line}\n" for line in _summary(measurement)))
    shared = _shared(launches)
    stream.write("\n# The environment of every launch:\n")
    for variable, value in sorted(shared):
        stream.write(f"export {variable}={shlex.quote(value)}\n")
    for launch in launches:
        stream.write(f"\n# {launch.id}: {', '.join(launch.segments)}\n")
        for variable, value in sorted(launch.environment.items() - shared):
            stream.write(f"{variable}={shlex.quote(value)} \\\n")
        stream.write(shlex.join(launch.command) + "\n")
    for number, (reason, cells) in enumerate(measurement.skipped().items()):
        stream.write("" if number else "\n")
        stream.write(f"# skipped: {', '.join(cells)}: {reason}\n")


def _summary(measurement: "api.Measurement") -> list[str]:
    """The plan with its time, and the meaning of the names of launches."""
    kinds = list(dict.fromkeys(record.id.split("-")[2] for record in measurement.manifest.passes))
    lines = [
        *_plan(measurement),
        *_oversubscribed(measurement),
        "Names: NUMBER-npRANKS-KIND-rREPEAT.",
    ]
    meant = _KINDS | (_KINDS_OF_TORCH if measurement.is_torch_distributed else {})
    return lines + [f"  {kind}: {meant[kind]}" for kind in kinds if kind in meant]


def _plan(measurement: "api.Measurement") -> list[str]:
    """What runs, until when, and how long that takes."""
    manifest = measurement.manifest
    passes = manifest.passes
    models = dict.fromkeys(part.segment.model for record in passes for part in record.segments)
    sizes = sorted({record.size for record in passes})
    repeats = max((record.repeat for record in passes), default=0)
    launches = units.counted(len(passes), "launch")
    of_what = f"{', '.join(models)}; np {', '.join(map(str, sizes))}"
    settings = measurement.settings
    if not settings.stops_early:
        return [
            f"{launches} of {of_what}; {units.counted(repeats, 'repeat')}.",
            *_turns(measurement),
            _time(measurement),
        ]
    ends = [f"after {units.counted(settings.repeats, 'repeat')}"]
    if settings.precision is not None:
        reached = units.percent_limit(settings.precision)
        ends.insert(0, f"at ±{reached} (efficiency at the largest np of each model, 95 % CI)")
    if settings.budget_s is not None:
        ends.insert(-1, f"after {units.duration(settings.budget_s)}")
    return [
        f"First repeat: {launches} of {of_what}.",
        f"Stops {', '.join(ends[:-1])}, or {ends[-1]}.",
        *_turns(measurement),
        _time(measurement),
    ]


def _oversubscribed(measurement: "api.Measurement") -> list[str]:
    """The sizes with more ranks than this host has cores or GPUs.

    What other hosts have is known once they were asked, and is a warning of the run then.
    """
    if measurement.settings.hosts:
        return []
    sizes = sorted({record.size for record in measurement.manifest.passes if record.oversubscribed})
    if not sizes:
        return []
    return [
        f"np={', '.join(map(str, sizes))}: more ranks than cores or GPUs (oversubscribed). "
        f"{measurement.beside_ranks}Excluded from statements on scaling."
    ]


def _turns(measurement: "api.Measurement") -> list[str]:
    """Which launcher was chosen for a script; whether launches take turns, and why not."""
    settings, lines = measurement.settings, list[str]()
    if measurement.is_launcher_by_imports:
        lines.append("Launcher: torchrun; the script imports torch.distributed and not Horovod.")
    if settings.no_turns:
        lines.append(f"Launches run one after the other: {settings.no_turns}.")
    elif settings.turn_s is not None:
        lines.append("Launches of a repeat take turns.")
    return lines


def _time(measurement: "api.Measurement") -> str:
    """The estimated time with its basis."""
    plan = measurement.time_plan()
    if plan.planned_s is None:
        return f"Time: {plan.basis}."
    about = f"about {units.duration(plan.planned_s)}"
    if measurement.settings.stops_early and plan.repeat_s is not None:
        about += f" for the first repeat, {units.duration(plan.repeat_s)} for each further one"
    return f"Time: {about} ({plan.basis})."


def _shared(launches: Sequence["api.PlannedLaunch"]) -> frozenset[tuple[str, str]]:
    environments = [launch.environment.items() for launch in launches]
    return frozenset(environments[0]).intersection(*environments) if environments else frozenset()
