"""The options of ``hvdprof selftest``.

Tested in ``tests/launch/plan/test_options.py``.
"""

from dataclasses import dataclass
from pathlib import Path

from hvdprof.launch.plan.option_field import option
from hvdprof.launch.plan.options import MEASUREMENT, OUTPUT, RANKS, Amount, RankOptions

DEFAULT_LIMIT = "5m"


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
