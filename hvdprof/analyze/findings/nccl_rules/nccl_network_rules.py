"""Rules on the network that NCCL took, and on GPUDirect RDMA.

Tested in ``tests/analyze/findings/test_nccl_findings.py``.
"""

from collections.abc import Iterator

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice, sentences, set_to, unset
from hvdprof.analyze.findings.finding import Finding
from hvdprof.analyze.findings.nccl_rules.nccl_rule import (
    first_row,
    hosts_of,
    is_several,
    matching,
    shown,
)
from hvdprof.model.nccl_recording import NcclRecording

WRONG_INTERFACE = "nccl-wrong-interface"

_WRONG_INTERFACE = r"(?:lo|docker\d*|virbr\d*|veth\w*|br-\w+|cni\d*|flannel[\w.]*)$"
_FAST_INTERFACE = r"(?:hsn\d+|efa\w*|rdmap\w+)$"
_INFINIBAND = r"(?:ib|mlx|hfi|opa|roce)\w*\d"
_NAMED_DEVICE = r"NET/IB : Unable to open device"
_UNOPENED = rf"{_NAMED_DEVICE}|Call to ibv_open_device failed"
_OPEN_DEVICES = advice(
    "start the container with `docker run --device=/dev/infiniband --ulimit memlock=-1`",
    "In Kubernetes, use an RDMA device plugin. Check with `ibv_devinfo`.",
    command="docker run --device=/dev/infiniband --ulimit memlock=-1",
)


def socket_despite_fast_network(recording: NcclRecording) -> Iterator[Finding]:
    """Data goes over TCP sockets although the log names devices that are faster."""
    sockets = recording.connections[recording.connections["network"] == "Socket"]
    if sockets.empty or (recording.connections["network"] == "IB").any():
        return
    reason = _why_socket(recording)
    if reason is not None:
        clause, action, rows = reason
        yield Finding(
            "nccl-socket-despite-rdma",
            "warning",
            hosts_of(sockets),
            "TCP sockets despite a faster network",
            f"Ranks exchange data over TCP sockets (NET/Socket), although {clause}.",
            action,
            "certain",
            *shown(rows),
        )


def _why_socket(recording: NcclRecording) -> tuple[str, Advice, pd.DataFrame] | None:
    problems = recording.problems
    unopened = matching(problems, "text", _UNOPENED)
    used = recording.nics[(recording.nics["network"] == "IB") & (recording.nics["index"] >= 0)]
    off = _settings(recording, "NCCL_IB_DISABLE", "1")
    if not unopened.empty:
        return f"{_devices(unopened)}. None of them could be opened", _OPEN_DEVICES, unopened
    if not off.empty and shows_infiniband(recording):
        return "NCCL_IB_DISABLE=1 disables InfiniBand and RoCE", unset("NCCL_IB_DISABLE"), off
    used = used[used["purpose"] == "data"]
    if not used.empty:
        return (
            f"NCCL found {first_row(used)['name']}",
            unset("NCCL_NET", ", and check NCCL_IB_HCA", default="or set NCCL_NET=IB"),
            used,
        )
    return None


def shows_infiniband(recording: NcclRecording) -> bool:
    """Whether the log names a device or an interface of InfiniBand or RoCE.

    With NCCL_IB_DISABLE=1, NCCL does not look for any: only names of interfaces are left.
    """
    nics, networks = recording.nics, recording.networks
    found = networks[(networks["subject"] == "ib") & (networks["state"] == "using")]
    named = matching(nics, "name", _INFINIBAND)
    unopened = matching(recording.problems, "text", _UNOPENED)
    used = recording.connections["network"] == "IB"
    drawn = recording.links["text"].astype(str).str.contains("mlx|NET/IB")
    return bool(len(found) or len(named) or len(unopened) or used.any() or drawn.any())


def _devices(unopened: pd.DataFrame) -> str:
    """`there are 4 InfiniBand or RoCE devices (mlx5_0 ...)`; older versions name none."""
    named = matching(unopened, "text", _NAMED_DEVICE)
    names = sorted({str(text).split()[-1] for text in named["text"]})
    if not names:
        return "there are InfiniBand or RoCE devices"
    if len(names) == 1:
        return f"there is 1 InfiniBand or RoCE device ({names[0]})"
    return f"there are {len(names)} InfiniBand or RoCE devices ({names[0]} ...)"


def unopened_devices(recording: NcclRecording) -> Iterator[Finding]:
    """Devices that cannot be opened, where no connection shows what ranks use instead."""
    unopened = matching(recording.problems, "text", _UNOPENED)
    if unopened.empty or recording.connections["network"].isin(["IB", "Socket"]).any():
        return
    number = int(unopened["count"].sum())
    often = "once" if number == 1 else f"{units.count(number)} times"
    yield Finding(
        "nccl-devices-unopened",
        "note",
        hosts_of(unopened),
        "InfiniBand devices that cannot be opened",
        f"NCCL failed to open an InfiniBand or RoCE device {often}. The log shows no connection "
        "between hosts, so it does not say what replaces the device.",
        _OPEN_DEVICES,
        "likely",
        *shown(unopened),
    )


def slow_network_beside_fabric(recording: NcclRecording) -> Iterator[Finding]:
    """Sockets over the interfaces of a fabric that a plugin would drive."""
    nics = recording.nics[recording.nics["network"] == "Socket"]
    fast = matching(nics, "name", _FAST_INTERFACE)
    sockets = recording.connections[recording.connections["network"] == "Socket"]
    if not fast.empty and not sockets.empty:
        lacks_plugin = _lacks_plugin(recording)
        yield Finding(
            "nccl-fabric-over-tcp",
            "note",
            hosts_of(fast),
            "TCP over a fast fabric",
            f"{first_row(fast)['name']} looks like a separate fabric (Slingshot, EFA), but NCCL "
            "uses TCP over it." + (" No network plugin was found." if lacks_plugin else ""),
            advice(
                "install aws-ofi-nccl, put its folder on LD_LIBRARY_PATH, and compare throughput"
            ),
            "possible",
            *shown(fast),
        )


def _lacks_plugin(recording: NcclRecording) -> bool:
    networks = recording.networks
    return bool(((networks["subject"] == "net-plugin") & (networks["state"] == "missing")).any())


def plugin_missing(recording: NcclRecording) -> Iterator[Finding]:
    """EFA or libfabric was asked for, but its plugin did not load or start."""
    networks = recording.networks
    failed = networks[(networks["subject"] == "ofi") & (networks["state"] == "failed")]
    missing = networks[(networks["subject"] == "net-plugin") & (networks["state"] == "missing")]
    asked = matching(recording.settings, "variable", r"FI_|OFI_|NCCL_NET_PLUGIN$")
    chosen = networks[networks["subject"] == "network"]
    taken = matching(chosen, "text", "Using network (?:.*Libfabric|.*OFI|AWS)")
    if taken.empty and (not failed.empty or (not missing.empty and not asked.empty)):
        shown_rows = failed if not failed.empty else missing
        yield Finding(
            "nccl-plugin-missing",
            "warning",
            hosts_of(shown_rows),
            "missing network plugin",
            "The network plugin for EFA or libfabric is expected, but NCCL did not use it.",
            advice(
                "put the folder of libnccl-net.so on LD_LIBRARY_PATH on every host",
                "Check with `fi_info -p efa`.",
                command="fi_info -p efa",
                first="Put the folder of libnccl-net.so (aws-ofi-nccl) on LD_LIBRARY_PATH on every "
                "host.",
            ),
            "likely",
            *shown(shown_rows),
        )


def _on_one_host(recording: NcclRecording) -> bool:
    """Whether the log shows that all ranks of all its communicators are on one host."""
    ranks, communicators = recording.ranks, recording.communicators
    if ranks.empty or is_several(ranks, "host"):
        return False
    stated = set(ranks.loc[ranks["num_nodes"].eq(1).fillna(False), "communicator"])
    is_whole = communicators["num_ranks_seen"].ge(communicators["num_ranks"]).fillna(False)
    return bool((is_whole | communicators["communicator"].isin(stated)).all())


def wrong_interface(recording: NcclRecording) -> Iterator[Finding]:
    """NCCL talks over an interface that does not leave the host, and ranks may be on others."""
    nics = recording.nics[recording.nics["purpose"].isin(["bootstrap", "data"])]
    wrong = matching(nics, "name", _WRONG_INTERFACE)
    first = wrong[wrong["index"].fillna(0) == 0]
    if first.empty or _on_one_host(recording):
        return
    several = is_several(recording.ranks, "host")
    yield Finding(
        WRONG_INTERFACE,
        "warning" if several else "note",
        hosts_of(first),
        "wrong network interface",
        sentences(
            f"NCCL uses the interface {first_row(first)['name']}, which does not leave the host.",
            "" if several else "The log does not show whether ranks are on other hosts.",
        ),
        set_to(
            "NCCL_SOCKET_IFNAME=^lo,docker0,virbr0",
            unit="or to the right interface of `ip -br addr`",
        ),
        "certain" if several else "possible",
        *shown(first),
        detail=str(first_row(first)["name"]),
    )


def _will_use_ib(recording: NcclRecording) -> bool:
    """Whether a log without connections states that NCCL chose InfiniBand or RoCE."""
    chosen = recording.networks[recording.networks["subject"] == "network"]["text"].astype(str)
    return recording.connections.empty and bool(chosen.str.contains(r"etwork IB\b").any())


_MOST_DEVICES = 8
_CHECK_MODULE = advice(
    "check with `lsmod | grep peermem` whether nvidia_peermem is loaded on the host",
    "If it is not: `sudo modprobe nvidia-peermem`. If it is: update NCCL, of which versions up to "
    "2.22.3 can overlook it.",
    command="lsmod | grep peermem",
)


def gpudirect_off(recording: NcclRecording) -> Iterator[Finding]:
    """InfiniBand without GPUDirect RDMA, and the reason where the log gives one."""
    data = recording.connections[recording.connections["network"] == "IB"]
    off = recording.gpudirect[~recording.gpudirect["enabled"]]
    if data["gpudirect"].any() or (data.empty and (off.empty or not _will_use_ib(recording))):
        return
    paths = off[off["scope"] == "path"]
    level = recording.settings[recording.settings["variable"].isin(["NCCL_NET_GDR_LEVEL"])]
    if not paths.empty:
        row = first_row(paths)
        yield Finding(
            "nccl-gpudirect-off",
            "warning",
            hosts_of(data),
            "GPUDirect RDMA off",
            f"GPU {row['gpu']} and network device {row['hca']} have distance {row['distance']}, "
            f"and the limit is {row['limit']}. Data goes through host memory.",
            unset("NCCL_NET_GDR_LEVEL")
            if not level.empty
            else set_to("NCCL_NET_GDR_LEVEL=SYS", ", measure, and keep it only if it is faster"),
            "certain",
            *shown(paths),
            detail="devices too far apart",
        )
    elif not off.empty:
        number = units.counted(len(off[["host", "name"]].drop_duplicates()), "adapter")
        named = ", ".join(str(name) for name in off["name"].drop_duplicates()[:_MOST_DEVICES])
        yield Finding(
            "nccl-gpudirect-off",
            "warning",
            hosts_of(off),
            "GPUDirect RDMA off",
            f"NCCL reports GPUDirect RDMA as disabled for {number} ({named}) and states no reason. "
            + ("The log shows no connection." if data.empty else "Data goes through host memory."),
            _CHECK_MODULE,
            "likely",
            *shown(off),
            detail=f"on {number}",
        )
    else:
        yield Finding(
            "nccl-gpudirect-unused",
            "note",
            hosts_of(data),
            "GPUDirect RDMA unused",
            "Connections over InfiniBand do not use GPUDirect RDMA. The log does not give the "
            "reason.",
            # Connections are logged at INFO: that level is set already.
            _CHECK_MODULE
            if recording.of_hvdprof
            else set_to(
                "NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET",
                " to log the reason",
                "Check with `lsmod | grep peermem`.",
            ),
            "possible",
            *shown(data),
        )


def _settings(recording: NcclRecording, variable: str, value: str) -> pd.DataFrame:
    settings = recording.settings
    return settings[(settings["variable"] == variable) & (settings["value"] == value)]
