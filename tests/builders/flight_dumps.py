"""Flight Recorder dumps of ranks whose progress is stated, as PyTorch writes them."""

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

STARTED_NS = 1_758_581_000_000_000_000
Content = dict[str, object]


def dump(
    *,
    ranks: Sequence[int] = (0, 1),
    enqueued: int = 5,
    completed: int = 5,
    late_ns: int = 0,
    library: str = "nccl",
    version: str = "2.10",
    desc: str = "default_pg",
) -> Content:
    """The dump of one rank: calls 1 to ``enqueued`` of one group, of which some are completed.

    Args:
        ranks: Members of the group; empty as Gloo writes it.
        enqueued: Number of the last call.
        completed: Number of the last one completed.
        late_ns: By how much this rank submits later than others.
        library: The prefix of its names.
        version: Version of the format.
        desc: Description of the group.
    """
    config = {"0": {"name": "0", "desc": desc, "ranks": str(list(ranks))}}
    return {
        "version": version,
        "nccl_version": "2.27.3",
        "pg_config": config if ranks else {"": {"name": "", "desc": "", "ranks": "[]"}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": enqueued,
                "last_started_collective": -1,
                "last_completed_collective": completed,
            }
        },
        "entries": [
            entry(number, completed=number <= completed, late_ns=late_ns, library=library)
            for number in range(1, enqueued + 1)
        ],
    }


def entry(
    number: int, *, completed: bool = True, late_ns: int = 0, library: str = "nccl"
) -> Content:
    """One allreduce of 1024 floats, a second after the one before."""
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": f"{library}:all_reduce",
        "time_created_ns": STARTED_NS + number * 10**9 + late_ns,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "input_sizes": [[1024]],
        "input_dtypes": ["Float"],
        "output_sizes": [[1024]],
        "output_dtypes": ["Float"],
        "state": "completed" if completed else "scheduled",
        "retired": completed,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }


def write_dumps(
    folder: Path, dumps: Mapping[int, Content], *, as_json: bool = False, prefix: str = "dump_"
) -> Path:
    """The files of some ranks, named as PyTorch does; returns their folder."""
    folder.mkdir(exist_ok=True)
    for rank, content in dumps.items():
        if as_json:
            (folder / f"{prefix}{rank}.json").write_text(json.dumps(content))
        else:
            (folder / f"{prefix}{rank}").write_bytes(pickle.dumps(content, protocol=2))
    return folder
