"""Placement of the ranks of a cell: the facts behind likely causes of a loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.host_conditions import BUSY_CORES
from hvdprof.model.cell_key import of_base_cell
from hvdprof.model.run import Run
from hvdprof.rundir.manifest import Manifest, PassRecord

IDLE_SHARE = 0.5
"""Where at most this share of the cores is busy, no rank waits for one."""


@dataclass(frozen=True, slots=True)
class CellSetting:
    """Placement of the ranks in the throughput passes of a cell.

    Attributes:
        num_hosts: Hosts; 0 where unknown.
        on_gpus: Whether the ranks compute on GPUs.
        controller: mpi or gloo; empty where passes differ.
        every_core_computes: Whether the ranks had as many threads as there are cores.
        one_thread: Whether every rank had one thread; False where unknown.
        num_cores: Cores of the launching host; 0 where unknown.
        other_cores: Largest number of cores of that host used by other processes in a pass of the
            run, where they used more than ``BUSY_CORES`` in the mean of the cell's passes and its
            ranks lacked cores for them; else 0.
        busiest_launch: Largest number of cores used by other processes in one pass of the cell,
            where its ranks lacked cores for them; else 0.
        busy_cores: Largest number of cores that were busy during a launch, with its ranks or with
            other processes; NaN where unknown.
    """

    num_hosts: int
    on_gpus: bool
    controller: str
    every_core_computes: bool
    one_thread: bool
    num_cores: int
    other_cores: float
    busiest_launch: float = 0.0
    # Not compared: NaN equals nothing.
    busy_cores: float = field(default=NAN, compare=False)

    @property
    def ranks_mostly_wait(self) -> bool:
        """Whether the ranks sleep or wait so much that they do not compete for cores.

        False where that is unknown, and on GPUs.
        """
        return not self.on_gpus and self.busy_cores <= IDLE_SHARE * self.num_cores

    @property
    def crowd(self) -> str:
        """``other processes kept up to 1.7 of 2 cores busy``; empty without competition."""
        if not self.other_cores:
            return ""
        return f"other processes kept up to {self.other_cores:.1f} of {self.num_cores} cores busy"


def cell_setting(run: Run, cell: Mapping[str, object]) -> CellSetting:
    """Placement of the cell.

    Args:
        run: Any run.
        cell: A mapping with model, np and engine.
    """
    manifest = run.manifest
    segments = run.segments[(run.segments["mode"] == "throughput").to_numpy()]
    own = of_base_cell(segments, str(cell["model"]), int(str(cell["np"])), str(cell["engine"]))
    names = set(own["pass_id"].astype(str))
    passes = [record for record in manifest.passes if record.id in names]
    ranks = run.ranks[run.ranks["pass_id"].astype(str).isin(names).to_numpy()]
    controllers = {record.controller for record in passes}
    here = manifest.hosts[0] if manifest.hosts else {}
    cores = int(here.get("num_cores") or 0)
    of_here = ranks[(ranks["hostname"].astype(str) == str(here.get("hostname"))).to_numpy()]
    threads = _threads(of_here)
    busiest = _most_other_cores(passes)
    # Costs are means over launches: a load in one of many explains little of them.
    is_busy = _mean_other_cores(passes) > BUSY_CORES
    lack = threads + busiest > cores > 0
    compete = is_busy and lack
    return CellSetting(
        num_hosts=len(set(ranks["hostname"].astype(str)) - {""}) or len(manifest.hosts),
        on_gpus=bool(ranks["device"].astype(str).str.startswith("cuda").any())
        or manifest.settings.get("device") == "cuda",
        controller=controllers.pop() if len(controllers) == 1 else "",
        every_core_computes=0 < cores <= threads,
        one_thread=len(ranks) > 0 and bool((ranks["num_threads"] == 1).all()),
        num_cores=cores,
        other_cores=_most_other_cores(manifest.passes) if compete else 0.0,
        busiest_launch=busiest if lack else 0.0,
        busy_cores=_busy_cores(own, passes, ranks, manifest),
    )


def _busy_cores(
    segments: pd.DataFrame,
    passes: Sequence[PassRecord],
    ranks: pd.DataFrame,
    manifest: Manifest,
) -> float:
    # The cores of other hosts are unknown.
    if len(set(ranks["hostname"].astype(str)) - {""}) > 1 or len(manifest.hosts) != 1:
        return NAN
    # Ranks that wait for a core use none either: others must leave some.
    others = {record.id: record.other_cpu_cores for record in passes}
    busy = segments["busy_cores"] + segments["pass_id"].astype(str).map(others).astype("float64")
    return float(busy.max(skipna=False)) if len(busy) else NAN


def _most_other_cores(passes: Sequence[PassRecord]) -> float:
    return max((record.other_cpu_cores or 0.0 for record in passes), default=0.0)


def _mean_other_cores(passes: Sequence[PassRecord]) -> float:
    return sum(record.other_cpu_cores or 0.0 for record in passes) / max(1, len(passes))


def _threads(ranks: pd.DataFrame) -> int:
    """The threads of the ranks of one pass."""
    return int(ranks.drop_duplicates("rank")["num_threads"].clip(lower=1).sum())
