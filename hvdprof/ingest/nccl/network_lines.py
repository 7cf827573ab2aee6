"""Lines on networks: bootstrap, plugins, devices, the choice, GPUDirect decisions, settings."""

import re

from hvdprof.ingest.nccl.line_reader import reads
from hvdprof.ingest.nccl.logbook import Logbook, Message

_INTERFACE = re.compile(
    r"(?:\[(\d{1,3})\])?([A-Za-z][\w.-]{0,31}):(\[?[0-9a-fA-F.:%\w]+\]?<\d{1,5}>)"
)
_DEVICE = re.compile(r"\[(\d{1,3})\]([\w.+-]{1,80}):(\d{1,3})/(IB|RoCE)")
_OFI_DEVICE = re.compile(r"NIC group (\d{1,3}) device #\d{1,3} (\S+)$")
_PLUGIN_SETTING = re.compile(
    r"Setting ([A-Z][A-Z0-9_]{1,60}) (?:environment variable )?to \"?([^\"]+?)\"?"
    r"(?: for .*)?$"
)
_MISSING = re.compile(
    r"No plugin found|Could not find|cannot open shared|Failed to find|returned 2"
)
_OFI_FAILED = re.compile(r"(?i)\b(?:fail|unable|couldn't|could not|no eligible|no .*provider)")


@reads(
    r"^((?:NCCL|RCCL|OFI|FI|UCX|HSA|CUDA)_[A-Z0-9_]{1,60}) set (?:by environment )?to "
    r"(.+?)\.?\s*$"
)
def read_setting(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`NCCL_P2P_DISABLE set by environment to 1` and its older form `... set to 1`."""
    log.quote(said)
    log.add("nccl_settings", said, match[1], match[2], "environment")


def read_bootstrap(log: Logbook, said: Message) -> bool:
    """`Bootstrap : Using [0]eth0:10.1.2.3<0>`."""
    return _keep_interfaces(log, said, said.text, ("bootstrap", ""))


def read_ib(log: Logbook, said: Message) -> bool:
    """`NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:...`, or that there is no device."""
    if "GPU Direct RDMA" in said.text:
        return read_gpudirect_path(log, said) or read_gpudirect_device(log, said)
    if "No device found" in said.text:
        return _keep(log, said, "ib", "missing")
    data, _, out_of_band = said.text.partition("; OOB ")
    devices = _DEVICE.findall(data) if "Using [" in data else []
    for index, name, port, link in devices:
        _add_nic(log, said, "data", "IB", int(index), name, int(port), link, "")
    if devices:
        _keep_interfaces(log, said, out_of_band, ("oob", "IB"))
        return _keep(log, said, "ib", "using")
    # Without a device 2.28 prints the rest of the line alone: `Using [RO]; OOB eth0:...`.
    return "Using [" not in data or "Using [RO]" in data


def read_socket(log: Logbook, said: Message) -> bool:
    """`NET/Socket : Using [0]eth0:10.1.2.3<0>`, or how many threads and sockets it uses."""
    if "GPU Direct RDMA" in said.text:
        return read_gpudirect_device(log, said)
    if "Using [" not in said.text:
        return True
    _keep(log, said, "socket", "using")
    return _keep_interfaces(log, said, said.text, ("data", "Socket"))


def read_ofi(log: Logbook, said: Message) -> bool:
    """What the AWS plugin for libfabric says of itself: provider, devices, settings it makes."""
    setting = _PLUGIN_SETTING.search(said.text)
    device = _OFI_DEVICE.search(said.text)
    if setting is not None:
        log.quote(said)
        log.add("nccl_settings", said, setting[1], setting[2], "plugin")
    elif device is not None:
        _add_nic(log, said, "data", "OFI", int(device[1]), device[2], None, "", "")
    elif "Selected Provider" in said.text:
        _keep(log, said, "ofi", "using")
    elif "aws-ofi-nccl " in said.text:
        _keep(log, said, "ofi", "loaded")
    elif said.level == "WARN" or _OFI_FAILED.search(said.text):
        _keep(log, said, "ofi", "failed")
    return True


def read_net_plugin(log: Logbook, said: Message) -> bool:
    """`NET/Plugin : No plugin found`, `Loaded net plugin ...`, missing CollNet symbols."""
    if "CollNet" in said.text:
        return _keep(log, said, "collnet", _state(said.text))
    if "Failed to find ncclNetPlugin_v" in said.text:
        return True
    return _keep(log, said, "net-plugin", _state(said.text))


def read_other_plugin(log: Logbook, said: Message) -> bool:
    """`TUNER/Plugin: Could not find: libnccl-tuner.so. ...`; the same of PROFILER/Plugin."""
    return _keep(log, said, said.word.partition("/")[0].lower(), _state(said.text))


def read_using(log: Logbook, said: Message) -> bool:
    """`Using network IB`; `Using 256 threads, ...` of 2.4 says nothing that a table holds."""
    if said.text.startswith(("Using network ", "Using internal Network ")):
        return _keep(log, said, "network", "using")
    return True


def read_failed(log: Logbook, said: Message) -> bool:
    """`Failed to open libibverbs.so[.1]`, `Failed to initialize NET plugin IB`: not there."""
    if "libibverbs" in said.text:
        return _keep(log, said, "ib", "missing")
    if "Failed to initialize NET plugin " in said.text:
        return _keep(log, said, "net-plugin", "failed")
    return said.text.startswith("Failed to initialize any ")


def read_speed(log: Logbook, said: Message) -> bool:
    """`Could not get speed from .../eth0/speed. Defaulting to 10 Gbps.`: NCCL assumes one."""
    if said.text.startswith("Could not get speed from "):
        _keep(log, said, "speed", "missing")
    return True


@reads(r"GPU Direct RDMA (Enabled|Disabled) for HCA (\d{1,3}) '([^']*)'")
def read_gpudirect_device(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`GPU Direct RDMA Disabled for HCA 0 'mlx5_0'`: whether the driver can at all."""
    log.quote(said)
    state, hca, name = match.groups()
    log.add("nccl_gpudirect", said, "device", "", int(hca), name, state == "Enabled", None, None)


@reads(
    r"GPU Direct RDMA (Enabled|Disabled) for GPU (\w{1,16})(?:\[\w{1,16}\])? / HCA ([0-9a-f]{1,8}) "
    r"\(distance (\d{1,4}) (?:[<>]=?) (\d{1,4})\)"
)
def read_gpudirect_path(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`GPU Direct RDMA Disabled for GPU 81000 / HCA 0 (distance 6 > 4)`, in 2.4 `3 >= 2`."""
    log.quote(said)
    state, gpu, number, *numbers = match.groups()
    distance, limit = map(int, numbers)
    # Newer versions print it in hexadecimal, which shows from a on.
    hca = int(number, 10 if number.isdigit() else 16)
    log.add("nccl_gpudirect", said, "path", gpu, hca, "", state == "Enabled", distance, limit)


def _keep(log: Logbook, said: Message, subject: str, state: str) -> bool:
    log.quote(said)
    log.add("nccl_networks", said, subject, state, said.text.strip())
    return True


def _keep_interfaces(log: Logbook, said: Message, text: str, what: tuple[str, str]) -> bool:
    log.quote(said)
    interfaces = _INTERFACE.findall(text)
    for place, (index, name, address) in enumerate(interfaces):
        number = int(index) if index else place
        _add_nic(log, said, *what, number, name, None, "", address)
    return bool(interfaces)


def _add_nic(log: Logbook, said: Message, *values: object) -> None:
    # Rank, connections and GPUDirect follow when all lines are read (``nics_in_use``).
    log.add("nccl_nics", said, None, *values, 0, False)


def _state(text: str) -> str:
    if _MISSING.search(text):
        return "missing"
    return "loaded" if "oaded" in text or "Using" in text else "using"
