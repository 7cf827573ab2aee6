"""``python -m hvdprof.launch.launchers.gloo_rank PROGRAM...``: a Gloo rank that Slurm started.

Gloo does not ask Slurm which rank a process is. This sets the variables that it does ask for, and
then becomes the program.
"""

import fcntl
import os
import socket
import struct
import sys
from collections.abc import Mapping, Sequence

from hvdprof.errors import EnvironmentNotReadyError, HvdprofError
from hvdprof.launch.launchers.gloo_rendezvous import ADDRESS
from hvdprof.launch.launchers.slurm_allocation import tasks_per_node

_SIOCGIFADDR = 0x8915


def main(arguments: Sequence[str] | None = None) -> None:
    """Become the program, as the rank that Slurm says."""
    program = list(sys.argv[1:] if arguments is None else arguments)
    try:
        environment = {**os.environ, **rank_variables(os.environ)}
        environment["HOROVOD_GLOO_IFACE"] = interface_towards(os.environ[ADDRESS])
        os.execvpe(program[0], program, environment)
    except HvdprofError as error:
        sys.exit(f"hvdprof: {error.message}")
    except OSError as error:
        sys.exit(f"hvdprof: {socket.gethostname()} cannot start {program[0]}: {error.strerror}.")


def rank_variables(slurm: Mapping[str, str]) -> dict[str, str]:
    """Horovod's variables of a rank from those that ``srun`` sets for a task.

    Raises:
        EnvironmentNotReadyError: Not started by ``srun``.
    """
    try:
        rank, local_rank, node = (
            int(slurm[name]) for name in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
        )
        tasks = tasks_per_node(slurm["SLURM_STEP_TASKS_PER_NODE"])
        local_size = tasks[node]
    except (KeyError, ValueError, IndexError) as error:
        raise EnvironmentNotReadyError(
            f"This process was not started by srun ({error} is missing).",
            hint="hvdprof bench --launcher srun ...   (or hvdprof run)",
        ) from error
    # Of nodes with unlike numbers of ranks, only those that have this local rank are across.
    across = [index for index, number in enumerate(tasks) if number > local_rank]
    return {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(sum(tasks)),
        "HOROVOD_LOCAL_RANK": str(local_rank),
        "HOROVOD_LOCAL_SIZE": str(local_size),
        "HOROVOD_CROSS_RANK": str(across.index(node)),
        "HOROVOD_CROSS_SIZE": str(len(across)),
        "HOROVOD_HOSTNAME": slurm.get("SLURMD_NODENAME", socket.gethostname()),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }


def interface_towards(address: str) -> str:
    """The network interface by which an address is reached.

    Raises:
        EnvironmentNotReadyError: None has the address that this host would send from.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((address, 9))
        own = asking.getsockname()[0]
        for _, name in socket.if_nameindex():
            if _address_of(asking, name) == own:
                return name
    if own.startswith("127."):
        return "lo"
    raise EnvironmentNotReadyError(f"No network interface of this host has its address {own}.")


def _address_of(asking: socket.socket, interface: str) -> str:
    try:
        answer = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", interface.encode()))
    except OSError:
        # An interface without an address.
        return ""
    return socket.inet_ntoa(answer[20:24])


if __name__ == "__main__":
    main()
