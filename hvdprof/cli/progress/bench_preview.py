"""What a measurement is about to do, shown before it starts."""

import shlex
from collections.abc import Sequence
from typing import IO

from hvdprof import api

_KINDS = {
    "torch": "baseline without Horovod",
    "throughput": "measures the speed, without a timeline",
    "trace": "writes Horovod's timeline",
    "attribution": "writes Horovod's timeline without the response cache",
    "ddp": "PyTorch's DistributedDataParallel instead of Horovod",
}


def announce(measurement: "api.Measurement", stream: IO[str]) -> None:
    """Write the run directory, the skipped configurations with their reasons, and warnings."""
    folder = measurement.folder
    stream.write(f"hvdprof: measuring into {folder}\n")
    for reason, cells in measurement.skipped().items():
        stream.write(f"skipped: {', '.join(cells)}: {reason}\n")
    for warning in measurement.manifest.warnings:
        stream.write(f"! {warning}\n")
    if measurement.has_secret:
        stream.write(
            "! The command of the script seems to hold a secret. --resume needs the command, so "
            f"{measurement.manifest_path} keeps it. Pass secrets in the environment: no secret of "
            "the environment is written.\n"
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
    """The number of launches, of what, and the meaning of their names."""
    passes = measurement.manifest.passes
    models = dict.fromkeys(part.segment.model for one in passes for part in one.segments)
    sizes = sorted({one.size for one in passes})
    repeats = max((one.repeat for one in passes), default=0)
    kinds = list(dict.fromkeys(one.id.split("-")[2] for one in passes))
    lines = [
        f"{_counted(len(passes), 'launch', 'launches')} of {', '.join(models)}; "
        f"np {', '.join(map(str, sizes))}; {_counted(repeats, 'repeat', 'repeats')}.",
        "Names: NUMBER-npRANKS-KIND-rREPEAT.",
    ]
    return lines + [f"  {kind}: {_KINDS[kind]}" for kind in kinds if kind in _KINDS]


def _shared(launches: Sequence["api.PlannedLaunch"]) -> frozenset[tuple[str, str]]:
    environments = [launch.environment.items() for launch in launches]
    return frozenset(environments[0]).intersection(*environments) if environments else frozenset()


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
