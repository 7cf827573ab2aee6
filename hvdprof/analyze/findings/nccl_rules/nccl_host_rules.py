"""Rules on what happens within a host: peer access, shared memory, NVLink, channels.

Tested in ``tests/analyze/findings/test_nccl_findings.py``.
"""

from collections.abc import Iterator

import pandas as pd

from hvdprof.analyze.findings.advice import advice, unset
from hvdprof.analyze.findings.finding import Finding
from hvdprof.analyze.findings.nccl_rules.nccl_rule import first_row, hosts_of, shown
from hvdprof.model.nccl_recording import NcclRecording

_FEW_CHANNELS = 2


def peer_access_off(recording: NcclRecording) -> Iterator[Finding]:
    """GPUs of one host exchange data through host memory."""
    settings = recording.settings
    off = settings[
        ((settings["variable"] == "NCCL_P2P_DISABLE") & (settings["value"] == "1"))
        | ((settings["variable"] == "NCCL_P2P_LEVEL") & settings["value"].isin(["LOC", "0"]))
    ]
    shared = recording.connections[recording.connections["transport"] == "SHM"]
    if not off.empty:
        row = first_row(off)
        yield Finding(
            "nccl-p2p-disabled",
            "warning",
            hosts_of(off),
            "peer access between GPUs disabled",
            f"{row['variable']}={row['value']} forbids direct access between GPUs of one host. "
            "Their data goes through host memory.",
            unset(str(row["variable"])),
            "certain",
            *shown(off),
        )
    elif not shared.empty:
        yield Finding(
            "nccl-p2p-unavailable",
            "note",
            hosts_of(shared),
            "peer access between GPUs unavailable",
            f"Some GPUs of one host exchange data through host memory. {_why_not_peer(recording)}",
            advice(
                "run `nvidia-smi topo -p2p r`",
                "Virtual machines and IOMMU (ACS) often disable peer access.",
                command="nvidia-smi topo -p2p r",
            ),
            "likely",
            *shown(shared),
        )


def _why_not_peer(recording: NcclRecording) -> str:
    """Without settings or an init of its own, the log shows too little for a reason."""
    if not recording.ranks["complete"].any():
        return "The log does not show why."
    return (
        "The log shows no variable that forbids direct access, so the machine probably does not "
        "offer it."
    )


def shared_memory_off(recording: NcclRecording) -> Iterator[Finding]:
    """NCCL_SHM_DISABLE=1: ranks of one host that lack peer access go over the network."""
    settings = recording.settings
    off = settings[(settings["variable"] == "NCCL_SHM_DISABLE") & (settings["value"] == "1")]
    if not off.empty:
        yield Finding(
            "nccl-shm-disabled",
            "warning",
            hosts_of(off),
            "shared memory disabled",
            "With NCCL_SHM_DISABLE=1, GPUs of one host without direct access exchange data over "
            "the network.",
            unset(
                "NCCL_SHM_DISABLE",
                more="A container needs enough shared memory: `docker run --shm-size=1g`.",
            ),
            "certain",
            *shown(off),
        )


def topology_file(recording: NcclRecording) -> Iterator[Finding]:
    """A topology of the user's own, above all one without NVLink."""
    settings = recording.settings
    files = settings[
        (settings["variable"] == "NCCL_TOPO_FILE") & (settings["origin"] == "environment")
    ]
    own = files[~files["value"].astype(str).str.contains("aws-ofi-nccl").astype(bool)]
    by_plugin = settings["variable"].eq("NCCL_TOPO_FILE") & settings["origin"].eq("plugin")
    if own.empty or bool(by_plugin.any()):
        return
    links = recording.links
    drawn = bool((links["kind"] == "system").any())
    hides = drawn and not bool(links["kind"].isin(["NVL", "NVB"]).any())
    several = bool((recording.links["text"].astype(str).str.count("GPU/") > 0).sum() > 1)
    hurts = hides and several and _few_channels(recording)
    yield Finding(
        "nccl-topology-file",
        "warning" if hurts else "note",
        hosts_of(own),
        "topology from a file",
        f"NCCL takes the topology of {first_row(own)['value']} instead of the machine's."
        + (" The file lists no NVLink, and NCCL found few channels with it." if hurts else ""),
        unset(
            "NCCL_TOPO_FILE",
            " and compare `coll channels` and throughput",
            "Check NVLink with `nvidia-smi nvlink -s`.",
        ),
        "likely" if hurts else "possible",
        *shown(own),
    )


def few_channels(recording: NcclRecording) -> Iterator[Finding]:
    """One or two channels where NVLink, or another job of the same shape, offers more."""
    ranks = recording.ranks.dropna(subset=["num_coll_channels", "num_ranks"])
    few = ranks[(ranks["num_ranks"] > 1) & (ranks["num_coll_channels"] <= _FEW_CHANNELS)]
    if few.empty:
        return
    links = recording.links
    fast = links[links["kind"].isin(["NVL", "NVB"])]
    twins = _twins(recording, few)
    if (fast.empty and twins.empty) or _is_limited(recording):
        return
    number = int(few["num_coll_channels"].min())
    other = (
        f"another communicator of as many ranks on as many hosts has "
        f"{int(twins['num_coll_channels'].max())}"
        if fast.empty
        else "the topology has NVLink"
    )
    yield Finding(
        "nccl-few-channels",
        "warning",
        hosts_of(few),
        "few NCCL channels",
        f"NCCL uses {number} channel{'s' * (number > 1)} for collectives, though {other}.",
        unset(
            "NCCL_MAX_NCHANNELS",
            ", NCCL_TOPO_FILE and NCCL_P2P_LEVEL",
            "" if recording.of_hvdprof else "NCCL_DEBUG_SUBSYS=GRAPH shows what the search found.",
        ),
        "likely",
        *shown(few.assign(line=few["channels_line"].fillna(few["line"]))),
    )


def _is_limited(recording: NcclRecording) -> bool:
    """A setting that has a finding of its own explains the few channels."""
    settings = recording.settings
    limits = settings["variable"].isin(["NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"])
    few = settings["value"].isin([str(number) for number in range(1, _FEW_CHANNELS + 1)])
    return bool((limits & few).any())


def _few_channels(recording: NcclRecording) -> bool:
    known = recording.ranks["num_coll_channels"].dropna()
    return not known.empty and int(known.max()) <= _FEW_CHANNELS


def _twins(recording: NcclRecording, few: pd.DataFrame) -> pd.DataFrame:
    """Communicators of the same shape with more than twice the channels, separated for sure."""
    sure = recording.communicators[recording.communicators["join"].isin(["commId", "complete"])]
    mine = sure[sure["communicator"].isin(few["communicator"])]
    shapes = set(zip(mine["num_ranks"], mine["num_hosts"], strict=True))
    shape = pd.Series(
        list(zip(sure["num_ranks"], sure["num_hosts"], strict=True)), index=sure.index, dtype=object
    )
    twins = sure[shape.isin(shapes)]
    enough = (twins["num_coll_channels"] > 2 * _FEW_CHANNELS).fillna(False).astype(bool)
    return twins[enough]
