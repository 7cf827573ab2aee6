"""The buckets that DDP reduced, as rank 0 recorded them, as blocks of a timeline's tables."""

import numpy as np
import pandas as pd

from hvdprof.ingest.recorder.clock_alignment import Alignment
from hvdprof.ingest.recorder.recorder_file import SegmentRecording
from hvdprof.ingest.storage.blocks import Block
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES

COLLECTIVE = "ALLREDUCE"

_OF_EVENTS = (
    "step",
    "tensor",
    "occurrence",
    "fusion_id",
    "start_ns",
    "dur_ns",
    "clock_error_ns",
)


def bucket_blocks(
    pass_id: str, segment: SegmentRecording, alignment: Alignment
) -> dict[str, Block]:
    """EVENTS, TENSOR_USES and EXECUTIONS by name; empty where no bucket was recorded.

    DDP negotiates nothing: which gradients go together is settled when the model is wrapped, so
    the columns on negotiation are missing. Times are from the handing over of a bucket to its end;
    queueing behind other buckets and the waiting for ranks that are later count as transfer.
    """
    buckets = segment.bucket_table()
    if not len(buckets):
        return {}
    row, offset_ns, dur_ns, num_tensors = buckets.T
    steps = segment.step_table()[row]
    start_ns = steps[:, 2] + offset_ns
    members = np.asarray(segment.bucket_members, dtype=np.int64)
    sent = np.asarray(segment.sent_of, dtype=np.int64)[members]
    owner = np.repeat(np.arange(len(buckets)), num_tensors)
    nothing = np.zeros(len(buckets), dtype=np.int64)
    common = {"pass_id": pass_id, "segment": segment.id, "collective": COLLECTIVE}
    of_bucket = {
        "step": steps[:, 0],
        "start_ns": alignment.aligned_ns(start_ns),
        "dur_ns": dur_ns,
        "warmup": steps[:, 1].astype(bool),
        "clock_error_ns": alignment.errors_ns(start_ns),
    }
    executions = of_bucket | {
        "fusion_id": np.arange(len(buckets)),
        "num_tensors": num_tensors,
        "size_bytes": np.bincount(owner, weights=sent, minlength=len(buckets)).astype(np.int64),
        **dict.fromkeys(("init_ns", "wait_ns", "queue_ns", "copy_ns"), nothing),
        "transfer_ns": dur_ns,
    }
    missing = pd.array([None] * len(members), dtype="Int64")
    unknown = ("negotiation_start_ns", "negotiation_ns", "first_rank", "last_rank", "last_after_ns")
    uses = {name: values[owner] for name, values in of_bucket.items()} | {
        "tensor": pd.Categorical.from_codes(
            members, categories=pd.Index(segment.tensors, dtype=str)
        ),
        "occurrence": _occurrences(members),
        "fusion_id": owner,
        "size_bytes": sent,
        "dtype": "",
        "num_ticks": np.zeros(len(members), dtype=np.int64),
        **dict.fromkeys(unknown, missing),
    }
    events = {name: uses[name] for name in _OF_EVENTS} | {
        "source": "timeline",
        "rank": np.zeros(len(members), dtype=np.int64),
        "phase": "operation",
        "activity": COLLECTIVE,
        "size_bytes": pd.array(sent, dtype="Int64"),
    }
    return {
        EVENTS.name: common | events,
        TENSOR_USES.name: common | uses,
        EXECUTIONS.name: common | executions,
    }


def _occurrences(members: np.ndarray) -> np.ndarray:
    """How often each entry stood there before."""
    return pd.Series(members).groupby(members).cumcount().to_numpy(dtype=np.int64)
