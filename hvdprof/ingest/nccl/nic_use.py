"""Which rank a network device belongs to, and how many connections go through it.

Tested in ``tests/ingest/nccl/test_nic_use.py``.
"""

import pandas as pd

from hvdprof.model.tables.nccl_tables import NCCL_NICS

_PROCESS = ["host", "pid"]
_DEVICE = [*_PROCESS, "network", "index"]


def nics_in_use(nics: pd.DataFrame, ranks: pd.DataFrame, connections: pd.DataFrame) -> pd.DataFrame:
    """NCCL_NICS with ``rank``, ``num_connections`` and ``gpudirect``.

    Args:
        nics: NCCL_NICS without these.
        ranks: NCCL_RANKS; the largest communicator of a process gives its rank.
        connections: NCCL_CONNECTIONS.
    """
    if nics.empty:
        return nics
    names = dict.fromkeys(("host", "network"), str)
    bare = nics.drop(columns=["rank", "num_connections", "gpudirect"]).astype(names)
    largest = ranks.dropna(subset=["rank"]).sort_values("num_ranks", ascending=False)
    rank_of = largest.drop_duplicates(_PROCESS)[[*_PROCESS, "rank"]].astype({"host": str})
    table = bare.merge(rank_of, on=_PROCESS, how="left").merge(
        _use(connections.astype(names)), on=_DEVICE, how="left"
    )
    used = (table["purpose"].astype(str) == "data") & table["num_connections"].notna()
    table["num_connections"] = table["num_connections"].where(used, 0).astype("int64")
    table["gpudirect"] = table["gpudirect"].where(used, False).astype("bool")
    return NCCL_NICS.frame(table)


def _use(connections: pd.DataFrame) -> pd.DataFrame:
    through = connections[connections["nic"].notna()]
    # The plugins of a connection have names of their own; devices are of three kinds.
    networks = through["network"].map(_kind)
    devices = through.assign(network=networks).rename(columns={"nic": "index"})
    groups = devices.groupby(_DEVICE, sort=False)
    return groups.agg(
        num_connections=("channel", "size"), gpudirect=("gpudirect", "any")
    ).reset_index()


def _kind(network: str) -> str:
    if network == "Socket":
        return "Socket"
    return "IB" if network.startswith("IB") else "OFI"
