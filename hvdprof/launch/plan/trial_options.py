"""The options of ``hvdprof net`` and ``hvdprof selftest``, which try a machine, not a job."""

from dataclasses import dataclass
from pathlib import Path

from hvdprof.launch.plan.options import MEASUREMENT, OUTPUT, RANKS, Amount, RankOptions, option
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

DEFAULT_SECONDS = 0.5
MOST_SECONDS = 60.0
DEFAULT_LIMIT = "5m"
SELFTEST_ENGINES = (HOROVOD_ENGINE, DDP_ENGINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetOptions(RankOptions):
    """The options of a network measurement: one rank runs on every host."""

    hosts: str | None = option(
        None,
        "Two hosts or more, such as h1,h2; slots have no effect here.",
        "--hosts",
        "-H",
        panel=RANKS,
    )
    sizes: str | None = option(
        None,
        "Sizes of the messages, such as 1k,64k,1M; 1k to 16M in steps of 4 when not given.",
        "--sizes",
        panel=MEASUREMENT,
    )
    seconds: float = option(
        DEFAULT_SECONDS,
        "Seconds per pair of hosts and size, for each of TCP, Horovod and allreduce.",
        "--seconds",
        panel=MEASUREMENT,
        lowest=0.01,
        highest=MOST_SECONDS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestOptions(RankOptions):
    """The options of a self-test: where it runs, and for how long at most."""

    np: int | None = option(
        None,
        "Number of ranks; all slots of --hosts, or 2 on this host, when not given.",
        "--np",
        "-np",
        panel=RANKS,
        lowest=2,
    )
    engine: str | None = option(
        None,
        "What reduces the gradients: horovod or ddp; ddp where Horovod is not installed and this "
        "is not given.",
        "--engine",
        panel=MEASUREMENT,
        known=SELFTEST_ENGINES,
    )
    live: bool = option(
        False,
        "One launch of 90 s instead: does `hvdprof watch` name a slow rank, and clear it?",
        "--live",
        panel=MEASUREMENT,
    )
    limit: Amount = option(
        DEFAULT_LIMIT,
        "No launch starts after this time, 5m or 90s.",
        "--limit",
        panel=MEASUREMENT,
    )
    output: str | Path | None = option(
        None,
        "Keep the runs in this folder; they are deleted when not given.",
        "--output",
        "-o",
        panel=OUTPUT,
    )
