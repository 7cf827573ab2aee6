"""Warnings and time-outs that a job prints, of Horovod and of the libraries below it."""

from collections.abc import Iterator

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import advice, set_to
from hvdprof.analyze.findings.finding import Finding
from hvdprof.rank_names import ranks_named


def adasum_on_cpu(incidents: pd.DataFrame) -> Iterator[Finding]:
    """Horovod's warning that Adasum copies tensors to the host."""
    rows = incidents[(incidents["kind"] == "adasum").to_numpy()]
    if rows.empty:
        return
    number = "once" if len(rows) == 1 else f"{units.count(len(rows))} times"
    row = rows.iloc[0].to_dict()
    yield Finding(
        "adasum-on-cpu",
        "warning",
        "job",
        "Adasum on the CPU",
        f"Horovod warns {number}: this build reduces with Adasum on the host, so every tensor is "
        "copied from the GPU and back.",
        set_to(
            "HOROVOD_GPU_OPERATIONS=NCCL",
            " and install Horovod again, or reduce with hvd.Average",
        ),
        "certain",
        str(row["file"]),
        int(row["line"]),
        str(row["message"]),
    )


def network_timeout(incidents: pd.DataFrame) -> Iterator[Finding]:
    """Connections of Gloo, of PyTorch's store or of a launcher that timed out."""
    rows = incidents[(incidents["kind"] == "network-timeout").to_numpy()]
    if rows.empty:
        return
    ranks = sorted({int(rank) for rank in rows["rank"].dropna()})
    who = f" of {ranks_named(ranks)}" if ranks else ""
    number = "A connection" if len(rows) == 1 else f"{units.count(len(rows))} connections"
    row = rows.iloc[0].to_dict()
    yield Finding(
        "network-timeout",
        "error",
        ranks_named(ranks) or "job",
        "network timeout",
        f"{number}{who} timed out. The peer did not run, did not get that far, or cannot be "
        "reached.",
        advice(
            "check that the peer still ran at that time",
            "Check the network between the hosts with `hvdprof net --hosts`, and name its "
            "interface: HOROVOD_GLOO_IFACE or GLOO_SOCKET_IFNAME.",
            command="hvdprof net --hosts",
        ),
        "likely",
        str(row["file"]),
        int(row["line"]),
        str(row["message"]),
    )
