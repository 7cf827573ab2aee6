"""``python -m hvdprof.launch.remote.host_probe TOKEN``: the doctor in brief, run on every host.

Prints one marked line, since login shells print lines of their own: versions, what keeps Horovod
from working, facts about the host, and whether a file that the asking host has just made is there.
"""

import json
import platform
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hvdprof import __version__
from hvdprof.collect.host_facts import host_facts
from hvdprof.launch.plan.provenance import versions
from hvdprof.machine.hostname import hostname_resolves
from hvdprof.machine.install.horovod_features import HorovodBuild, ask_horovod
from hvdprof.machine.mpi import find_mpi

MARK = "hvdprof-host: "


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBrief:
    """What one host says of itself.

    ``versions`` are by name as in the manifest, ``host`` as ``host_facts`` tells. ``problem`` says
    why Horovod cannot be used there, empty where it can. ``shares_folder`` is whether the token's
    file is there: the host sees the run directory.
    """

    versions: dict[str, str]
    problem: str
    hostname_resolves: bool
    shares_folder: bool
    host: dict[str, Any] = field(default_factory=dict)


def take_brief(token: Path | None) -> HostBrief:
    """The brief of this host; a few seconds, most of them Horovod's import in a child process."""
    horovod = ask_horovod()
    if isinstance(horovod, HorovodBuild):
        known, problem = versions(horovod, find_mpi()), ""
    else:
        known = {"hvdprof": __version__, "python": platform.python_version()}
        reason = f"cannot be imported: {horovod.reason}" if horovod else "is not installed"
        problem = f"Horovod {reason}"
    return HostBrief(
        versions=known,
        problem=problem,
        hostname_resolves=hostname_resolves(),
        shares_folder=token is not None and token.exists(),
        host=host_facts(),
    )


def parse_brief(printed: str) -> HostBrief | None:
    """The brief in what a host printed; None where there is none."""
    marked = [line for line in printed.splitlines() if line.startswith(MARK)]
    if not marked:
        return None
    try:
        return HostBrief(**json.loads(marked[-1].removeprefix(MARK)))
    except (ValueError, TypeError):
        # Torn, or of an hvdprof whose brief has other fields.
        return None


def main() -> None:
    """Print the brief of this host."""
    token = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    sys.stdout.write(f"{MARK}{json.dumps(asdict(take_brief(token)))}\n")


if __name__ == "__main__":
    main()
