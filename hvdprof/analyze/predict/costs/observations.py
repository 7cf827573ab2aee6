"""Measured allreduces: ranks, hosts, payload and time."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.model.launch_key import LAUNCH
from hvdprof.rundir.plan import HOROVOD_ENGINE

_ALLREDUCE = "ALLREDUCE"
_COLUMNS = ["num_ranks", "ranks_per_host", "size_bytes", "time_ns", "is_whole"]


@dataclass(frozen=True, slots=True)
class Observations:
    """Measured allreduces, one per place of the arrays, in the order in which they ran.

    Attributes:
        num_ranks: Ranks of each.
        ranks_per_host: Ranks of the fullest host.
        size_bytes: Payloads.
        time_ns: Measured times, above 0.
        is_whole: True where the time includes Horovod's cycle and negotiation.
    """

    num_ranks: NDArray[np.int64]
    ranks_per_host: NDArray[np.int64]
    size_bytes: NDArray[np.float64]
    time_ns: NDArray[np.float64]
    is_whole: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.time_ns)

    def thinned(self, most: int) -> "Observations":
        """At most so many of each number of ranks and half decade of payload, spread evenly.

        Else the many small allreduces of a step, which matter least, decide a fit.
        """
        decades = np.floor(2 * np.log10(np.maximum(self.size_bytes, 1.0)))
        cells = np.stack([self.num_ranks, self.is_whole, decades], axis=1)
        _, cell_of = np.unique(cells, axis=0, return_inverse=True)
        places = []
        for cell in range(int(cell_of.max(initial=-1)) + 1):
            members = np.flatnonzero(cell_of == cell)
            number = min(most, len(members))
            places.append(members[np.linspace(0, len(members) - 1, number).round().astype(int)])
        chosen = np.sort(np.concatenate(places)) if places else np.empty(0, dtype=np.int64)
        return Observations(
            self.num_ranks[chosen],
            self.ranks_per_host[chosen],
            self.size_bytes[chosen],
            self.time_ns[chosen],
            self.is_whole[chosen],
        )


def observed_allreduces(
    collectives: pd.DataFrame,
    segments: pd.DataFrame,
    ranks: pd.DataFrame,
    net_transfers: pd.DataFrame,
    passes: set[str],
) -> Observations:
    """The allreduces of a run that say what communication costs, none where it holds none.

    Transfers of traced launches, without warm-up, and the allreduces of ``hvdprof net`` among all
    hosts, which include Horovod's cycle and negotiation. Oversubscribed launches are left out:
    their ranks wait for cores. So are those of DDP, whose transfers overlap.

    Args:
        collectives: COLLECTIVES.
        segments: SEGMENTS.
        ranks: RANKS, for the hosts of a pass.
        net_transfers: NET_TRANSFERS.
        passes: Passes whose launches count: those of one controller.
    """
    names = dict.fromkeys(LAUNCH, str)
    launches = _launches(segments, ranks, passes)
    executed = collectives[
        (collectives["collective"] == _ALLREDUCE).to_numpy()
        & ~collectives["warmup"].to_numpy(dtype=bool)
        & collectives["size_bytes"].notna().to_numpy()
        & (collectives["transfer_ns"] > 0).to_numpy()
    ].astype(names)
    joined = executed.merge(launches, on=LAUNCH).rename(columns={"transfer_ns": "time_ns"})
    timed = joined.sort_values([*LAUNCH, "start_ns"], kind="stable").assign(is_whole=False)
    between = net_transfers[(net_transfers["method"] == "allreduce").to_numpy()]
    alone = between.rename(columns={"np": "num_ranks"}).assign(ranks_per_host=1, is_whole=True)
    both = [frame[_COLUMNS] for frame in (timed, alone) if len(frame)]
    table = pd.concat(both) if both else pd.DataFrame(columns=_COLUMNS)
    return Observations(
        table["num_ranks"].to_numpy(dtype=np.int64),
        table["ranks_per_host"].to_numpy(dtype=np.int64),
        table["size_bytes"].to_numpy(dtype=np.float64),
        table["time_ns"].to_numpy(dtype=np.float64),
        table["is_whole"].to_numpy(dtype=np.bool_),
    )


def _launches(segments: pd.DataFrame, ranks: pd.DataFrame, passes: set[str]) -> pd.DataFrame:
    """Launch, ``num_ranks`` and ``ranks_per_host`` of what counts."""
    hosts = ranks.astype({"pass_id": str, "hostname": str})
    counts = hosts.groupby(["pass_id", "hostname"]).size().groupby("pass_id").max()
    own = segments[
        segments["pass_id"].astype(str).isin(passes & set(counts.index)).to_numpy()
        & (segments["engine"] == HOROVOD_ENGINE).to_numpy()
        & ~segments["oversubscribed"].to_numpy(dtype=bool)
        & (segments["size"] > 1).to_numpy()
    ]
    names = dict.fromkeys(LAUNCH, str)
    found: pd.DataFrame = own[[*LAUNCH, "size"]].astype(names).drop_duplicates(LAUNCH)
    found["ranks_per_host"] = found["pass_id"].map(counts)
    return found.rename(columns={"size": "num_ranks"})
