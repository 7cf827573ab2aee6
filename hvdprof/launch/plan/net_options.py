"""The options of ``hvdprof net``.

Tested in ``tests/launch/plan/test_options.py``.
"""

from dataclasses import dataclass

from hvdprof.launch.plan.option_field import option
from hvdprof.launch.plan.options import MEASUREMENT, RANKS, RankOptions

DEFAULT_SECONDS = 0.5
MOST_SECONDS = 60.0


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
