"""Rows of COLLECTIVES: a test states only what matters to it."""

from typing import Any

from tests.builders.traced_run import PASS_ID, SEGMENT_ID

NAN = float("nan")


def collective_row(size_bytes: int | None, transfer_ms: float, **values: Any) -> dict[str, Any]:
    """An execution of two tensors in step 1 after warm-up."""
    row: dict[str, Any] = {
        "pass_id": PASS_ID,
        "segment": SEGMENT_ID,
        "step": 1,
        "fusion_id": 0,
        "collective": "ALLREDUCE",
        "num_tensors": 2,
        "size_bytes": size_bytes,
        "start_ns": 0,
        "dur_ns": 1,
        "queue_ns": 0,
        "copy_ns": 0,
        "transfer_ns": round(transfer_ms * 1e6),
        "negotiation_ns": 0,
        "hold_ns": 0,
        "lag_ns": None,
        "algbw_gb_per_s": NAN,
        "busbw_gb_per_s": NAN,
        "fill": NAN,
        "warmup": False,
    }
    return row | values
