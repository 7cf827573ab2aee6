"""A recording of two ranks with known truth as the tables that a recorder would have given."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from hvdprof.analyze.steps.measured_launches import job_steps
from hvdprof.analyze.steps.step_work import StepWork, step_work
from hvdprof.model.tables.run_tables import ARRIVALS, EVENTS, STEPS
from tests.builders.places import RECORDINGS

RECORDING = RECORDINGS / "04_gloo_straggler_rank1_cache_off"
LATE_STEPS = (2, 5, 8, 11)
"""Steps in which rank 1 slept 120 ms between forward and backward."""

_NUM_STEPS = 12


def recorded_waits(times: int = 1) -> tuple[pd.DataFrame, StepWork]:
    """ARRIVALS and the steps of the recording, played ``times`` times in a row.

    The sleep counts as forward, as it would in a script that marks its phases.
    """
    ranks = [json.loads(Path(f"{RECORDING}.rank{rank}.truth.json").read_text()) for rank in (0, 1)]
    begin = min(rank["steps"][0]["step_begin"] for rank in ranks)
    length = max(rank["steps"][-1]["step_end"] for rank in ranks) - begin
    steps, events, arrivals = [], [], []
    for number in range(times):
        for rank, of_rank in enumerate(ranks):
            for recorded in of_rank["steps"]:
                step = number * _NUM_STEPS + recorded["i"]
                names = {"pass_id": "p", "segment": "s", "rank": rank, "step": step}
                shift = number * length
                steps.append(names | _step(recorded, shift))
                events.append(names | _blocked(recorded, shift))
                arrivals += [
                    names | {"tensor": tensor, "ready_ns": 1000 * (at + shift), "clock_error_ns": 0}
                    for tensor, at in recorded["ready"].items()
                ]
    table = STEPS.frame(steps)
    (work,) = step_work(table, EVENTS.frame(events), job_steps(table)).values()
    return ARRIVALS.frame(arrivals), work


def _step(recorded: dict[str, Any], shift: int) -> dict[str, Any]:
    blocked = recorded["pre"][1] - recorded["pre"][0]
    return {
        "warmup": False,
        "start_ns": 1000 * (recorded["step_begin"] + shift),
        "dur_ns": 1000 * (recorded["step_end"] - recorded["step_begin"]),
        "data_ns": 0,
        "forward_ns": 1000 * (recorded["bwd_begin"] - recorded["step_begin"]),
        "backward_ns": 1000 * (recorded["bwd_end"] - recorded["bwd_begin"]),
        "blocked_ns": 1000 * blocked,
        "before_update_ns": 0,
        "optimizer_ns": 1000 * (recorded["step_end"] - recorded["bwd_end"] - blocked),
        "outside_ns": 0,
        "samples": 1,
        "loss": float("nan"),
        "num_steps": 1,
        "evaluation": False,
        "clock_error_ns": 0,
    }


def _blocked(recorded: dict[str, Any], shift: int) -> dict[str, Any]:
    return {
        "source": "recorder",
        "phase": "part",
        "activity": "blocked",
        "collective": "",
        "tensor": "",
        "occurrence": 0,
        "fusion_id": -1,
        "start_ns": 1000 * (recorded["pre"][0] + shift),
        "dur_ns": 1000 * (recorded["pre"][1] - recorded["pre"][0]),
        "size_bytes": None,
        "clock_error_ns": 0,
    }
