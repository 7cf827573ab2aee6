"""``python -m hvdprof.launch.remote.host_probe TOKEN [torch]``: a short doctor, run on every host.

Prints one marked line, since login shells print lines of their own: versions, what keeps Horovod
from working, facts about the host, and whether a file that the asking host has just made is there.
"""

import json
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from hvdprof import __version__
from hvdprof.collect.host_facts import host_facts
from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.plan.workload import versions
from hvdprof.machine.hostname import hostname_resolves
from hvdprof.machine.install.horovod_features import HorovodBuild, ask_horovod, require_torch
from hvdprof.machine.mpi import find_mpi
from hvdprof.rundir.json_codec import parse_json
from hvdprof.rundir.recording.sample_format import HostFacts

MARK = "hvdprof-host: "
OF_TORCH = "torch"
"""The argument where ranks need no Horovod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProbe:
    """What one host reports about itself.

    ``versions`` are by name as in the manifest, ``host`` as from ``host_facts``. ``problem`` says
    why Horovod, or PyTorch where that alone is needed, cannot be used there, empty where it can.
    ``shares_folder`` is whether the token's file is there: the host sees the run directory.
    """

    versions: dict[str, str]
    problem: str
    hostname_resolves: bool
    shares_folder: bool
    host: HostFacts


def probe_host(token: Path | None, *, needs_horovod: bool = True) -> HostProbe:
    """The probe of this host; a few seconds, most of them Horovod's import in a child process."""
    build = _horovod() if needs_horovod else _torch()
    if isinstance(build, str):
        named, problem = {"hvdprof": __version__, "python": platform.python_version()}, build
    else:
        named, problem = versions(build, find_mpi() if needs_horovod else None), ""
    return HostProbe(
        versions=named,
        problem=problem,
        hostname_resolves=hostname_resolves(),
        shares_folder=token is not None and token.exists(),
        host=host_facts(),
    )


def _horovod() -> HorovodBuild | str:
    horovod = ask_horovod()
    if isinstance(horovod, HorovodBuild):
        return horovod
    return f"Horovod {f'cannot be imported: {horovod.reason}' if horovod else 'is not installed'}"


def _torch() -> HorovodBuild | str:
    try:
        return require_torch()
    except EnvironmentNotReadyError as error:
        return error.message


def parse_probe(printed: str) -> HostProbe | None:
    """The probe in the output of a host; None where there is none."""
    marked = [line for line in printed.splitlines() if line.startswith(MARK)]
    if not marked:
        return None
    try:
        return HostProbe(**parse_json(marked[-1].removeprefix(MARK)))
    except (ValueError, TypeError):
        # Torn, or of an hvdprof whose probe has other fields.
        return None


def main() -> None:
    """Print the probe of this host."""
    token = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    probe = probe_host(token, needs_horovod=sys.argv[2:] != [OF_TORCH])
    sys.stdout.write(f"{MARK}{json.dumps(asdict(probe))}\n")


if __name__ == "__main__":
    main()
