"""What an progress of a measurement is called with, and how a launch is named."""

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.launch.diagnose.stall import Stall
from hvdprof.launch.run.sweep_progress import SilentProgress, SweepProgress
from hvdprof.model.cell_key import ENGINE_TITLES
from hvdprof.rundir.manifest import PassRecord
from hvdprof.rundir.plan import TORCH_DISTRIBUTED_ENGINES, TORCH_ENGINE

__all__ = [
    "PassProgress",
    "PassRecord",
    "SilentProgress",
    "Stall",
    "SweepProgress",
    "launch_title",
]


def launch_title(record: PassRecord) -> str:
    """A launch in a few words: ``2 ranks, throughput, repeat 1``."""
    if record.session is not None:
        return f"elastic, {record.mode}, repeat {record.repeat}"
    ranks = "1 rank" if record.size == 1 else f"{record.size} ranks"
    if all(segment.segment.engine == TORCH_ENGINE for segment in record.segments):
        return f"{ranks}, {ENGINE_TITLES[TORCH_ENGINE]}, repeat {record.repeat}"
    is_named = record.engine in TORCH_DISTRIBUTED_ENGINES
    engine = f"{ENGINE_TITLES[record.engine]}, " if is_named else ""
    return f"{ranks}, {engine}{record.mode}, repeat {record.repeat}"
