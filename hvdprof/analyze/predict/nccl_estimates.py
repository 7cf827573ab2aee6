"""Latency and bandwidth of links out of the tuning table that NCCL prints.

The table holds NCCL's own estimates, not measurements. For a ring of n ranks on h hosts they are,
by ``tuning.cc``: ``latency = base + (steps - crossing) * intra + crossing * inter`` with
``steps = 2 (n-1)`` and ``crossing = 2 (h-1)``, and a bandwidth of ``busbw * n / steps``.
"""

from collections.abc import Sequence

import pandas as pd

from hvdprof.analyze.predict.posterior_draws import Prior
from hvdprof.model.nccl_recording import NcclRecording

_BASE_NS = 8_400.0
"""Ring with the protocol Simple, ``baseLat`` of ``tuning.cc``."""

_NVLINK_NS = 3_400.0
"""One hop over NVLink with the protocol Simple, ``hwLat`` of ``tuning.cc``."""

_LATENCY_ERROR, _BANDWIDTH_ERROR = 0.7, 0.4
"""Standard deviations of the logarithm: a factor of 2 and of 1.5."""


def nccl_estimates(recordings: Sequence[NcclRecording]) -> dict[str, Prior]:
    """Priors of ``algorithm_choice.PARAMETERS`` by name, empty where no table was printed.

    Communicators on one host speak of the links inside it, those over several hosts of the
    network. The largest of each kind counts.
    """
    found: dict[str, Prior] = {}
    largest: dict[str, int] = {}
    for recording in recordings:
        rings = recording.tuning[
            (recording.tuning["operation"] == "AllReduce").to_numpy()
            & (recording.tuning["algorithm"] == "Ring").to_numpy()
            & (recording.tuning["protocol"] == "Simple").to_numpy()
            & (recording.tuning["bandwidth"] > 0).to_numpy()
        ]
        for row in rings.merge(_sizes(recording), on="communicator").to_dict("records"):
            num_ranks, num_hosts = int(row["num_ranks"]), int(row["hosts"])
            level = "intra" if num_hosts == 1 else "inter"
            if num_ranks <= largest.get(level, 1):
                continue
            largest[level] = num_ranks
            beta = num_ranks / (2 * (num_ranks - 1) * float(row["bandwidth"]))
            found[f"{level}_beta"] = Prior(beta, _BANDWIDTH_ERROR)
            alpha = _hop_ns(float(row["latency_ns"]), num_ranks, num_hosts)
            if alpha > 0:
                found[f"{level}_alpha"] = Prior(alpha, _LATENCY_ERROR)
    return found


def _hop_ns(latency_ns: float, num_ranks: int, num_hosts: int) -> float:
    steps, crossing = 2 * (num_ranks - 1), 2 * (num_hosts - 1)
    if not crossing:
        return (latency_ns - _BASE_NS) / steps
    return (latency_ns - _BASE_NS - (steps - crossing) * _NVLINK_NS) / crossing


def _sizes(recording: NcclRecording) -> pd.DataFrame:
    """Ranks and hosts of each communicator whose number of hosts is known.

    Logs up to 2.18 state no number of nodes: then it is that of the hosts seen, if all ranks were.
    """
    stated = recording.ranks.groupby("communicator", as_index=False)["num_nodes"].max()
    table = recording.communicators.merge(stated, on="communicator", how="left")
    seen = table["num_hosts"].where(table["num_ranks_seen"] == table["num_ranks"])
    table["hosts"] = table["num_nodes"].astype("Int64").fillna(seen.astype("Int64"))
    known = table[table["hosts"].notna() & table["num_ranks"].notna()]
    return known[["communicator", "num_ranks", "hosts"]]
