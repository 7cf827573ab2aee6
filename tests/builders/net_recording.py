"""Measurements of a network whose latency and bandwidth are known."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hvdprof.rundir.attached import NetRecording

SIZES = (1024, 16_384, 262_144, 1_048_576, 4_194_304)


def net_recording(**changes: Any) -> NetRecording:
    """Two hosts: TCP at 0.05 ms and 25 MB/s, Horovod at 1 ms and 20 MB/s, allreduce slower."""
    values: dict[str, Any] = {
        "created_at": "2026-11-21T09:00:00+00:00",
        "controller": "gloo",
        "device": "cpu",
        "hosts": ["h1", "h2"],
        "records": [
            *link("tcp", alpha_ns=50_000, bytes_per_s=25e6, ends=(1, 0)),
            *link("broadcast", alpha_ns=1_000_000, bytes_per_s=20e6, ends=(0, 1)),
            *link("allreduce", alpha_ns=2_000_000, bytes_per_s=10e6, ends=None),
        ],
    }
    return NetRecording(**values | changes)


def of_hosts(
    speeds: Sequence[float],
    *,
    delays_ns: Sequence[int] = (),
    noise: float = 0.0,
    seed: int = 0,
    what: str = "tcp",
) -> NetRecording:
    """Every pair of hosts h1, h2 ... as quick as the slower of their links, at 40 rounds a size.

    Args:
        speeds: Bytes per second of each host's link.
        delays_ns: What each host adds to the time of an empty message; 25 us where not given.
        noise: Relative spread of single times.
        seed: Of the noise.
        what: The method.
    """
    rng = np.random.default_rng(seed)
    delays = delays_ns or [25_000] * len(speeds)
    records = []
    for one, other in itertools.combinations(range(len(speeds)), 2):
        alpha, speed = delays[one] + delays[other], min(speeds[one], speeds[other])
        for record in link(what, alpha_ns=alpha, bytes_per_s=speed, ends=(one, other), rounds=40):
            spread = rng.lognormal(0.0, noise, len(record["times_ns"])) if noise else 1.0
            times = np.asarray(record["times_ns"]) * spread
            records.append(record | {"times_ns": times.round().astype(int).tolist()})
    names = [f"h{number}" for number in range(1, len(speeds) + 1)]
    return net_recording(hosts=names, records=records)


def link(
    what: str, *, alpha_ns: int, bytes_per_s: float, ends: tuple[int, int] | None, rounds: int = 9
) -> list[dict[str, Any]]:
    """Records of one link, every round a little slower than the last."""
    way = {"from": ends[0], "to": ends[1]} if ends else {}
    return [
        {
            "what": what,
            **way,
            "size_bytes": size,
            "times_ns": [
                round(alpha_ns + size * 1e9 / bytes_per_s) + 1000 * (number - rounds // 2)
                for number in range(rounds)
            ],
        }
        for size in SIZES
    ]
