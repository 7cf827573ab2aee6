"""The host of a rank, in the header of a recorder file and wherever hosts are asked for facts."""

from typing import TypedDict


class NetworkInterface(TypedDict):
    """A network interface that is up."""

    name: str
    mtu: int
    speed_mbit_per_s: int | None


class Gpu(TypedDict):
    """A GPU as ``nvidia-smi`` lists it."""

    index: int
    name: str
    memory_mib: int | None
    driver: str


class HostFacts(TypedDict):
    """A host; what is unknown is None or an empty list.

    ``num_cores`` are the cores that the job may use, ``num_machine_cores`` those of the machine.
    """

    hostname: str
    boot_id: str | None
    kernel: str
    cpu_model: str | None
    num_cores: int
    num_machine_cores: int | None
    memory_bytes: int | None
    nics: list[NetworkInterface]
    gpus: list[Gpu]
