"""The GPUs of ranks: which ranks of a host share one, and what one costs per hour."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hvdprof.errors import UsageError
from hvdprof.rundir.manifest import Manifest

_SRUN = "srun"

PRICE = "HVDPROF_PRICE"
"""Environment variable: the price where no option gives one."""

PRICE_OPTION = "price"
"""Its option among those in the manifest."""


class GpuRank(NamedTuple):
    """A rank on a GPU: its host, the UUID of the GPU (empty where unknown), the GPUs it sees."""

    host: str
    gpu: str
    num_seen: int


@dataclass(frozen=True, slots=True)
class GpuCrowd:
    """More ranks of a host than they use GPUs; ``num_seen`` is what each of them sees."""

    num_ranks: int
    num_gpus: int
    num_seen: int

    @property
    def is_misplaced(self) -> bool:
        """Whether the ranks see enough GPUs for all of them."""
        return self.num_ranks <= self.num_seen

    @property
    def text(self) -> str:
        """``2 ranks share 1 GPU``, and how many each sees where that is enough for all."""
        text = f"{self.num_ranks} ranks share {self.num_gpus} GPU{'s' * (self.num_gpus != 1)}"
        return f"{text} of the {self.num_seen} that each sees" if self.is_misplaced else text


def of_header(header: Mapping[str, object], host: str) -> GpuRank | None:
    """The rank of a recorder file; None where it computes on no GPU."""
    if not str(header.get("device", "")).startswith("cuda"):
        return None
    seen = header.get("num_gpus")
    return GpuRank(host, str(header.get("gpu") or ""), seen if isinstance(seen, int) else 0)


def gpu_crowd(ranks: Iterable[GpuRank | None], manifest: Manifest) -> GpuCrowd | None:
    """The first host whose ranks share a GPU; None where none is known to.

    UUIDs decide where all ranks of a host have one. Else a host shares where it has more ranks than
    the GPUs that its tools list, or than several that each rank sees.
    """
    by_host: dict[str, list[GpuRank]] = {}
    for rank in ranks:
        if rank is not None:
            by_host.setdefault(rank.host, []).append(rank)
    # Slurm may show each rank, and so its host's tools, one GPU that is the rank's own.
    is_listed = manifest.settings.get("launcher") != _SRUN
    listed = {str(host.get("hostname")): len(host.get("gpus") or ()) for host in manifest.hosts}
    for host, own in by_host.items():
        seen = max(rank.num_seen for rank in own)
        used = {rank.gpu for rank in own}
        if "" not in used:
            num_gpus = len(used)
        else:
            # With one GPU made visible to each rank, every rank sees one and each has its own.
            num_gpus = (listed.get(host, 0) if is_listed else 0) or (seen if seen > 1 else 0)
        if 0 < num_gpus < len(own):
            return GpuCrowd(len(own), num_gpus, seen)
    return None


def price_in(environment: Mapping[str, str]) -> float | None:
    """The price that the environment states, checked; None where it states none."""
    text = environment.get(PRICE)
    return checked_price(PRICE, text) if text else None


def checked_price(name: str, stated: object) -> float:
    """A price as a number, from where that name stated it.

    Raises:
        UsageError: It is no number, or negative.
    """
    try:
        price = float(str(stated))
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        raise UsageError(
            f"{name} {stated} is no price per GPU and hour.", hint="Give a number, such as 2.50."
        )
    return price
