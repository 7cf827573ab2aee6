"""Samples of lines of code, taken at random from the recorded steps of a synthetic run."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hvdprof.model.run import Run
from hvdprof.model.tables.line_tables import LINE_SAMPLES, LINE_SAMPLING, NAMED_CALLS

TRAIN = "/home/user/train.py"
Line = tuple[str, int, str]
"""File, line, function."""

USUAL: dict[str, list[tuple[Line, float]]] = {
    "data": [((TRAIN, 30, "main"), 1.0)],
    "forward": [((TRAIN, 31, "main"), 0.7), (("/home/user/model.py", 12, "Net.forward"), 0.3)],
    "backward": [((TRAIN, 32, "main"), 1.0)],
    "optimizer": [((TRAIN, 33, "main"), 1.0)],
    "outside": [((TRAIN, 36, "main"), 1.0)],
    "blocked": [((TRAIN, 33, "main"), 1.0)],
}
"""The lines of a phase and the shares of its usual time."""

Extra = Callable[[str, str, int, int], float]
"""What of a phase's time a step of a rank spends on the planted line, ns: by segment, phase, rank
and step."""


def with_samples(
    run: Run,
    planted: Line = (TRAIN, 99, "bug"),
    extra: Extra = lambda *_: 0.0,
    *,
    hz: float = 20.0,
    window: int = 20,
    seed: int = 0,
    workers: Mapping[int, Sequence[tuple[Line, str, int]]] | None = None,
    delay_ns: int = 0,
) -> Run:
    """The run as if a sampling thread had watched it.

    Args:
        run: A run with recorded steps.
        planted: The line that takes the ``extra`` time.
        extra: How much of the time of a phase it takes.
        hz: Samples per second, at exponential gaps.
        window: Steps of a window; longer than twice as usual, a step is kept singly.
        seed: The source of chance.
        workers: By rank, lines of its workers with their leaf and samples; in every launch.
        delay_ns: By how much each sample of a rank comes late.
    """
    rng = np.random.default_rng(seed)
    lines: list[dict[str, Any]] = []
    whole: list[dict[str, Any]] = []
    gap = round(1e9 / hz)
    steps = run.steps.astype({"pass_id": str, "segment": str})
    for (pass_id, segment, rank), own in steps.groupby(["pass_id", "segment", "rank"]):
        key = {"pass_id": pass_id, "segment": segment, "rank": rank}
        usual = own["dur_ns"].median()
        counts: dict[tuple[int, int, str], dict[Line, int]] = {}
        times: dict[tuple[int, int, str], int] = {}
        held: Counter[int] = Counter()
        ends = own["start_ns"] + own["dur_ns"]
        whole_ns = ends.diff().fillna(own["dur_ns"])
        for row, length_ns in zip(own.to_dict("records"), whole_ns, strict=True):
            step = int(row["step"])
            single = length_ns > 2 * usual
            first = step if single else step - step % window
            held[first] += not single
            phases = {name: row[f"{name}_ns"] for name in USUAL if name != "outside"}
            phases["outside"] = max(length_ns - sum(phases.values()), 0)
            for phase, time_ns in phases.items():
                place = (first, int(single), phase)
                times[place] = times.get(place, 0) + int(time_ns)
                taken = min(extra(str(segment), phase, int(str(rank)), step), time_ns)
                parts = [(line, share * (time_ns - taken)) for line, share in USUAL[phase]]
                for line, part_ns in [*parts, (planted, taken)]:
                    number = int(rng.poisson(part_ns / gap))
                    if number:
                        found = counts.setdefault(place, {})
                        found[line] = found.get(line, 0) + number
        for (first, single, phase), time_ns in times.items():
            found = counts.get((first, single, phase), {})
            window_of = {
                **key,
                "process": "main",
                "step": first,
                "steps": 1 if single else held[first],
                "phase": phase,
            }
            number = sum(found.values())
            whole.append(
                window_of
                | {"samples": number, "time_ns": time_ns}
                | {"mean_gap_ns": gap, "late_ns": number * delay_ns}
            )
            lines += [_row(window_of, line, "", count) for line, count in found.items()]
        for line, leaf, count in (workers or {}).get(int(str(rank)), ()):
            window_of = {"step": int(own["step"].min()), "steps": len(own), "phase": "outside"}
            of_worker = {**key, "process": "worker", **window_of}
            lines.append(_row(of_worker, line, leaf, count))
            whole.append(
                of_worker | {"samples": count, "time_ns": 0, "mean_gap_ns": gap, "late_ns": 0}
            )
    frames = {
        LINE_SAMPLES.name: LINE_SAMPLES.frame(pd.DataFrame(lines)),
        LINE_SAMPLING.name: LINE_SAMPLING.frame(pd.DataFrame(whole)),
    }
    return run.extended(frames, ())


def with_calls(run: Run, *calls: Mapping[str, Any]) -> Run:
    """The run with NAMED_CALLS; each states what matters of it."""
    usual = {"start_ns": 0, "file": TRAIN, "line": 57, "detail": ""}
    return run.extended({NAMED_CALLS.name: NAMED_CALLS.frame([usual | call for call in calls])}, ())


def _row(window: dict[str, Any], line: Line, leaf: str, samples: int) -> dict[str, Any]:
    file, number, function = line
    return window | {
        "file": file,
        "line": number,
        "function": function,
        "leaf": leaf,
        "stage": "",
        "samples": samples,
    }
