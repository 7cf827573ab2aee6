"""Light and full recordings of ranks whose own times are stated, to be watched."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

WALL_NS = 1_700_000_000_000_000_000
PER, STEP_NS = 32, 30_000_000
"""Steps of a window, and the usual length of a step without waits of the fastest rank."""

Extra = Callable[[int, int], float]
"""Rank and window to what it takes longer in data, as a share of the usual step."""


def header(rank: int, size: int, **changes: Any) -> dict[str, Any]:
    """The first line of a rank on a host of four."""
    host = {"hostname": f"node{rank // 4}"}
    line = {"kind": "header", "rank": rank, "size": size, "wall_ns": WALL_NS, "monotonic_ns": 0}
    return {**line, "host": host, **changes}


def window(first: int, last: int, *, own: int, length: int, **changes: Any) -> dict[str, Any]:
    """A window with a wait for the others and an own time, a tenth of it in data; ns."""
    line: dict[str, Any] = {
        "kind": "window",
        "segment": "main",
        "step": first,
        "last_step": last,
        "num_steps": last - first + 1,
        "warmup": False,
        "wall_ns": WALL_NS + length,
        "end_ns": length,
        "samples": 8 * (last - first + 1),
        "lengths": [length, 0, 0, 0],
        "parts": {"data": [own // 10, 0, 0, 0], "forward": [own - own // 10, 0, 0, 0]},
        "waits": [],
    }
    line["parts"]["blocked"] = [length - own, 0, 0, 0]
    return line | changes


def step(number: int, *, own: int, length: int, start: int = 0, **changes: Any) -> dict[str, Any]:
    """The same as a step of a full recording."""
    line = {"kind": "step", "segment": "main", "step": number, "start_ns": start}
    phases = [["data", 0, own // 10], ["forward", own // 10, length - own // 10]]
    more = {"dur_ns": length, "phases": phases, "blocked": [[own, length - own]], "samples": 8}
    return {**line, **more, "warmup": False, **changes}


class LiveJob:
    """A light recording that grows window by window.

    Args:
        folder: Where the ranks record.
        size: The number of ranks.
        extra: What ranks take longer in data.
        noise: Of the own time of a window, as a share of the usual step.
    """

    def __init__(
        self, folder: Path, size: int, extra: Extra = lambda *_: 0.0, noise: float = 0.01
    ) -> None:
        self.folder, self.size, self.extra, self.noise = folder, size, extra, noise
        self.ranks: Sequence[int] = range(size)
        self.segment = "main"
        self.factor = 1.0
        self.now_ns, self.number, self.wall_off_ns = 0, 0, 0
        self._random = random.Random(1)
        folder.mkdir(parents=True, exist_ok=True)
        for rank in self.ranks:
            self.append(rank, header(rank, size))

    def append(self, rank: int, *lines: dict[str, Any]) -> None:
        """Write lines of a rank."""
        with (self.folder / f"rank-{rank}.jsonl").open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))

    def record(self, number: int) -> None:
        """Let the ranks that take part write further windows."""
        for lines in self.windows(number):
            for rank, line in lines.items():
                self.append(rank, line)

    def windows(self, number: int) -> Iterator[dict[int, dict[str, Any]]]:
        """Further windows, by rank."""
        usual = PER * STEP_NS * self.factor
        for _ in range(number):
            more = {rank: usual * self.extra(rank, self.number) for rank in self.ranks}
            noise = {rank: usual * self._random.gauss(0, self.noise) for rank in self.ranks}
            own = {rank: int(usual + noise[rank] + more[rank]) for rank in self.ranks}
            length = max(own.values()) + int(usual / 10)
            self.now_ns += length
            first = self.number * PER
            self.number += 1
            lines = {}
            for rank in self.ranks:
                line = window(first, first + PER - 1, own=own[rank], length=length)
                data = int(usual / 20 + more[rank])
                line["parts"]["data"][0], line["parts"]["forward"][0] = data, own[rank] - data
                wall_ns = WALL_NS + self.now_ns + self.wall_off_ns
                times = {"wall_ns": wall_ns, "end_ns": self.now_ns}
                lines[rank] = line | times | {"segment": self.segment}
            yield lines

    def sample(self, rank: int, scope: str = "rank", length_s: float = 5.0, **means: float) -> None:
        """Let a rank write samples of its machine, of the time until now."""
        line = {"kind": "samples", "scope": scope, "device": "", "end_ns": self.now_ns}
        measures = [(name, 5, mean, mean, mean, mean) for name, mean in means.items()]
        times = {"start_ns": self.now_ns - round(length_s * 1e9), "measures": measures}
        with (self.folder / f"samples-{rank}.jsonl").open("a") as file:
            file.write(json.dumps(line | times) + "\n")

    def end(self) -> None:
        """Let every rank end its recording."""
        for rank in range(self.size):
            self.append(rank, {"kind": "end"})
