"""How long a zoom or pan of the dashboard's timeline takes on the server, and what it sends.

    python benchmarks/viewport.py 1000000 10000000

Synthetic passes: ranks that record five parts a step, and a Horovod timeline of as many rows. Each
view is what the page does for one request: window, lanes, bins or bars, and the figure as JSON.
"""

import argparse
import time

import numpy as np
import pandas as pd

from hvdprof.figures.timeline_figure import timeline_view
from hvdprof.figures.timeline_lanes import LaneKind, Lanes, pass_lanes
from hvdprof.model.run import Run
from hvdprof.model.tables import ARRIVALS, SEGMENTS, STEPS
from hvdprof.rundir.manifest import Manifest

_STEP_NS = 50_000_000
_PARTS = (("data", 0, 1), ("forward", 1, 14), ("backward", 15, 25), ("optimizer", 40, 9))
_ACTIVITIES = ("MEMCPY_IN_FUSION_BUFFER", "NCCL_ALLREDUCE", "MEMCPY_OUT_FUSION_BUFFER")
_NUM_TENSORS = 161
_NUM_VIEWS = 100


def main() -> None:
    """Print p50 and p95 of views, the largest payload and the memory of the index."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("events", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--ranks", type=int, default=16)
    arguments = parser.parse_args()
    for number in arguments.events:
        run = synthetic_run(number, arguments.ranks)
        for kind in LaneKind:
            started = time.perf_counter()
            lanes = pass_lanes(run, "pass", kind)
            built_s = time.perf_counter() - started
            millis, sizes = views(lanes)
            print(
                f"{len(run.events):,} events, {arguments.ranks} ranks, {kind}: "
                f"p50 {np.percentile(millis, 50):.0f} ms, p95 {np.percentile(millis, 95):.0f} ms, "
                f"payload at most {max(sizes) / 1000:.0f} kB, "
                f"{lanes.spans.nbytes / max(len(lanes.spans), 1):.0f} + 4 bytes an interval, "
                f"built in {built_s:.1f} s"
            )


def views(lanes: Lanes) -> tuple[list[float], list[int]]:
    """Milliseconds of one core and bytes of random views, from the whole pass to a few steps.

    Time of the processor, since the machine may be shared; a view uses one core.
    """
    rng = np.random.default_rng(5)
    shown = np.arange(len(lanes.names))
    millis, sizes = [], []
    for _ in range(_NUM_VIEWS):
        length = int(lanes.length_ns * 10 ** rng.uniform(-5, 0))
        first = int(rng.integers(0, lanes.length_ns - length + 1))
        started = time.process_time()
        text = timeline_view(lanes, shown, first, first + length).figure.to_json()
        millis.append(1000 * (time.process_time() - started))
        sizes.append(len(text))
    return millis, sizes


def synthetic_run(number: int, num_ranks: int) -> Run:
    """A run of one pass with about that many rows of events, half of them Horovod's."""
    num_steps = max(number // 2 // (num_ranks * len(_PARTS)), 1)
    recorded = _recorded(num_steps, num_ranks)
    written = _written(number - len(recorded), num_steps)
    events = pd.concat([recorded, written], ignore_index=True)
    for column in ("pass_id", "segment", "source", "phase", "activity", "collective", "tensor"):
        events[column] = events[column].astype("category")
    return Run(
        folder=None,
        manifest=Manifest,
        segments=SEGMENTS.empty(),
        steps=STEPS.empty(),
        arrivals=ARRIVALS.empty(),
        events=events,
        notes=(),
    )


def _recorded(num_steps: int, num_ranks: int) -> pd.DataFrame:
    step = np.repeat(np.arange(num_steps), num_ranks * len(_PARTS))
    rank = np.tile(np.repeat(np.arange(num_ranks), len(_PARTS)), num_steps)
    part = np.tile(np.arange(len(_PARTS)), num_steps * num_ranks)
    names, offsets, lengths = (np.array(column) for column in zip(*_PARTS, strict=True))
    return _frame(
        "recorder",
        "part",
        pd.Categorical.from_codes(part, names),
        start_ns=step * _STEP_NS + offsets[part] * 1_000_000,
        dur_ns=lengths[part] * 1_000_000,
        rank=rank,
        step=step,
    )


def _written(number: int, num_steps: int) -> pd.DataFrame:
    """Executions of two tensors each: an operation and three activities a tensor."""
    num_executions = max(number // 8, 1)
    execution = np.repeat(np.arange(num_executions), 8)
    inside = np.tile(np.arange(8), num_executions)
    length = max(num_steps * _STEP_NS // num_executions, 8)
    what = inside % 4
    tensor = (execution * 2 + inside // 4) % _NUM_TENSORS
    frame = _frame(
        "timeline",
        "activity",
        pd.Categorical.from_codes(what, ("ALLREDUCE", *_ACTIVITIES)),
        start_ns=execution * length + np.maximum(what - 1, 0) * (length // 4),
        dur_ns=np.where(what == 0, length * 3 // 4, length // 4),
        rank=np.zeros(len(what), int),
        step=np.zeros(len(what), int),
    )
    names = [f"allreduce.layer{number}.weight" for number in range(_NUM_TENSORS)]
    return frame.assign(
        phase=np.where(what == 0, "operation", "activity"),
        tensor=pd.Categorical.from_codes(tensor, names),
        fusion_id=execution,
    )


def _frame(source: str, phase: str, activity: pd.Categorical, **columns: object) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "pass_id": "pass",
            "segment": "resnet50",
            "source": source,
            "phase": phase,
            "activity": activity,
            "collective": "",
            "tensor": "",
            "fusion_id": -1,
            "size_bytes": pd.array([pd.NA], "Int64")[0],
            "clock_error_ns": 0,
            **columns,
        }
    )


if __name__ == "__main__":
    main()
