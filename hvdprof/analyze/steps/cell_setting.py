"""Placement of the ranks of a cell: the facts behind likely causes of a loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.other_load import OtherLoad, other_load
from hvdprof.model.cell_key import LAUNCH, of_base_cell
from hvdprof.model.run import Run
from hvdprof.model.tables.timeline_tables import TIMELINES
from hvdprof.rundir.gpu_crowd import GpuCrowd, GpuRank, gpu_crowd
from hvdprof.rundir.manifest import Manifest, PassRecord
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

_BACKENDS = ("nccl", "mpi", "gloo")
_COLUMNS = [*LAUNCH, "mode", "model", "size", "engine", "compression", "reduction", "busy_cores"]

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
        load: What other processes took of its cores.
        backend: What reduces tensors on GPUs: nccl, gloo or mpi; empty on CPUs and where unknown.
        gpu_crowd: Ranks that share a GPU, in the first pass that has some; None without.
        busy_cores: Largest number of cores that were busy during a launch, with its ranks or with
            other processes; NaN where unknown.
        is_elastic: Whether the job is an elastic one, which runs under Gloo alone.
    """

    num_hosts: int
    on_gpus: bool
    controller: str
    every_core_computes: bool
    one_thread: bool
    num_cores: int
    load: OtherLoad
    backend: str = ""
    gpu_crowd: GpuCrowd | None = None
    # Not compared: NaN equals nothing.
    busy_cores: float = field(default=NAN, compare=False)
    is_elastic: bool = False

    @property
    def ranks_mostly_wait(self) -> bool:
        """Whether the ranks sleep or wait so much that they do not compete for cores.

        False where that is unknown, and on GPUs.
        """
        return not self.on_gpus and self.busy_cores <= IDLE_SHARE * self.num_cores


def cell_setting(run: Run, cell: Mapping[str, object]) -> CellSetting:
    """Placement of the cell.

    Args:
        run: Any run.
        cell: A mapping with model, np and engine.
    """
    manifest = run.manifest
    place = str(cell["model"]), int(str(cell["np"])), str(cell["engine"])
    own = of_base_cell(run.segments[_COLUMNS], *place)
    own = own[(own["mode"] == "throughput").to_numpy()]
    names = set(map(str, own["pass_id"]))
    passes = [record for record in manifest.passes if record.id in names]
    ranks = run.ranks[run.ranks["pass_id"].isin(names).to_numpy()]
    hostnames = np.array([str(name) for name in ranks["hostname"]], dtype=object)
    hosts = set(hostnames) - {""}
    controllers = {record.controller for record in passes}
    controller = controllers.pop() if len(controllers) == 1 else ""
    here = manifest.hosts[0] if manifest.hosts else {}
    cores = int(here.get("num_cores") or 0)
    is_here = hostnames == str(here.get("hostname"))
    # The threads of the ranks of one pass.
    _, first = np.unique(ranks["rank"].to_numpy()[is_here], return_index=True)
    threads = int(np.maximum(ranks["num_threads"].to_numpy()[is_here][first], 1).sum())
    is_cuda = (str(device).startswith("cuda") for device in ranks["device"].unique())
    on_gpus = any(is_cuda) or manifest.settings.get("device") == "cuda"
    return CellSetting(
        num_hosts=len(hosts) or len(manifest.hosts),
        on_gpus=on_gpus,
        controller=controller,
        every_core_computes=0 < cores <= threads,
        one_thread=len(ranks) > 0 and bool((ranks["num_threads"] == 1).all()),
        num_cores=cores,
        load=other_load(run, own, threads, cores),
        backend=_backend(run, ranks, controller, str(cell["engine"])) if on_gpus else "",
        gpu_crowd=_gpu_crowd(ranks, manifest) if on_gpus else None,
        # The cores of other hosts are unknown.
        busy_cores=_busy_cores(own, passes) if len(hosts) < 2 > len(manifest.hosts) > 0 else NAN,
        is_elastic=any(record.session is not None for record in passes),
    )


def _backend(run: Run, ranks: pd.DataFrame, controller: str, engine: str) -> str:
    """By the ranks, else by Horovod's timelines, NCCL's logs, or the backend that the bench sets.

    A script under ``torch.distributed`` names its backend itself.
    """
    recorded = set(ranks["backend"].astype(str)) - {""}
    if len(recorded) == 1:
        return recorded.pop()
    if engine == HOROVOD_ENGINE:
        text = " ".join(run.table(TIMELINES.name)["backends"].astype(str)).lower()
        found = [name for name in _BACKENDS if name in text.replace(",", " ").split()]
        if found:
            return found[0]
    if any(len(recording.communicators) for recording in run.nccl):
        return _BACKENDS[0]
    is_set = engine == DDP_ENGINE and run.manifest.settings.get("script") is None
    return controller if is_set and controller in _BACKENDS else ""


def _gpu_crowd(ranks: pd.DataFrame, manifest: Manifest) -> GpuCrowd | None:
    on_gpus = ranks[ranks["device"].astype(str).str.startswith("cuda").to_numpy()]
    for _, own in on_gpus.groupby("pass_id", observed=True):
        columns = own["hostname"].astype(str), own["gpu"].astype(str), own["num_gpus"]
        crowd = gpu_crowd(map(GpuRank, *columns), manifest)
        if crowd is not None:
            return crowd
    return None


def _busy_cores(segments: pd.DataFrame, passes: Sequence[PassRecord]) -> float:
    # Ranks that wait for a core use none either: others must leave some.
    others = {record.id: record.other_cpu_cores for record in passes}
    of_passes = [others.get(str(pass_id)) for pass_id in segments["pass_id"]]
    busy = segments["busy_cores"].to_numpy() + np.array(of_passes, dtype=np.float64)
    return float(busy.max()) if len(busy) else NAN
