"""Phase logs of torchtitan's ranks: steps in which all wait for the slowest batch."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

START_US = 1_780_000_000_000_000


def write_phase_logs(
    folder: Path,
    data_ms: Sequence[Sequence[float]],
    *,
    work_ms: float = 80.0,
    hosts: Sequence[str] = (),
) -> list[Path]:
    """The logs of some ranks; each waits within ``fwd_bwd`` for the last one.

    Args:
        folder: Where ``structured_logs`` is made.
        data_ms: Of each rank, how long it fetches the batch of each step.
        work_ms: What ``fwd_bwd`` takes without waiting.
        hosts: Of each rank; all on one without.
    """
    place = folder / "structured_logs"
    place.mkdir(parents=True, exist_ok=True)
    lengths = np.asarray(data_ms)
    slowest = lengths.max(axis=0)
    paths = []
    for rank, own in enumerate(lengths.tolist()):
        lines = _Lines(rank, hosts[rank] if hosts else "node1")
        now = 0.0
        for step, (data, last) in enumerate(zip(own, slowest.tolist(), strict=True), start=1):
            begin = now
            lines.mark(step, "step_start", now)
            now = lines.span(step, "fetching_batch", now, data)
            now = lines.span(step, "fwd_bwd", now, last - data + work_ms)
            now = lines.span(step, "optim", now, 10.0)
            lines.mark(step, "step_end", now, now - begin)
            now += 1.0
        path = place / f"training.global_rank_{rank}.20260701-101010-ABCDE{rank}.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines.lines))
        paths.append(path)
    return paths


class _Lines:
    def __init__(self, rank: int, host: str) -> None:
        self.lines: list[dict[str, object]] = []
        self._of_rank = {"rank": rank, "global_rank": rank, "local_rank": rank, "host_name": host}

    def mark(self, step: int, name: str, at_ms: float, value: float | None = None) -> None:
        line: dict[str, object] = {"delta_ms": 0.1, "tid": 7, **self._of_rank, "source": "training"}
        line |= {"pid": 70, "step": step, "relative_step": step}
        line |= {"time_us": START_US + round(at_ms * 1000), "log_type": "event"}
        line |= {"log_type_name": name, "event_name": None}
        self.lines.append(line if value is None else {**line, "value": value})

    def span(self, step: int, name: str, at_ms: float, length_ms: float) -> float:
        self.mark(step, f"{name}_start", at_ms)
        self.mark(step, f"{name}_end", at_ms + length_ms, length_ms)
        return at_ms + length_ms
