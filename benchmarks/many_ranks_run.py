"""A synthetic run of many ranks, for measurements of the dashboard.

    python -m benchmarks.many_ranks_run 512 /tmp/ranks-512

Recorder files of every rank in a throughput and a traced pass; one rank needs more time in forward.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from tests.builders.run_directory import PassSpec, SegmentSpec, write_run

_SLOW_MS = 3.0
_TENSORS = {f"allreduce.layer{number}.weight": 40_000 for number in range(12)}


def main() -> None:
    """Write the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ranks", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    print(write_many_ranks(arguments.folder, arguments.ranks, arguments.steps))


def write_many_ranks(folder: Path, num_ranks: int, num_steps: int) -> Path:
    """Write a run directory of so many ranks and steps, and return it."""
    rng = np.random.default_rng(1)
    forward = 5.0 + rng.normal(0, 0.05, (num_ranks, num_steps + 2))
    forward[num_ranks // 3] += _SLOW_MS
    blocked = 12.0 - forward
    parts: dict[str, ArrayLike] = {"forward": forward, "backward": 4.0, "blocked": blocked}
    parts["optimizer"] = 0.5
    plain, traced = (
        SegmentSpec(parts_ms=parts, num_steps=num_steps, tensors=_TENSORS, timeline=is_traced)
        for is_traced in (False, True)
    )
    passes = [
        PassSpec(size=num_ranks, segments=[plain]),
        PassSpec(mode="trace", size=num_ranks, segments=[traced]),
    ]
    return write_run(folder, passes)


if __name__ == "__main__":
    main()
