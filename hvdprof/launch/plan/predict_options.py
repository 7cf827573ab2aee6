"""The options of commands that measure no job: ``hvdprof predict``, ``net`` and ``selftest``."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from hvdprof.errors import UsageError
from hvdprof.launch.plan.options import (
    DESIGN,
    HOROVOD,
    MEASUREMENT,
    NETWORK,
    OUTPUT,
    RANKS,
    Amount,
    RankOptions,
    declared,
    option,
)
from hvdprof.launch.plan.preflight import Sizes, check_known, check_number, parse_target
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

WEAK, STRONG = "weak", "strong"
ENGINES = ("horovod", "ddp")
DEVICES = ("cuda", "cpu")
ALGORITHMS = (
    *("ring", "tree", "recursive-doubling", "rabenseifner", "hierarchical", "parameter-server"),
)
"""The names of ``analyze.predict.collective_cost.Algorithm``."""

DEFAULT_TARGET = "80%"

DEFAULT_SECONDS = 0.5
MOST_SECONDS = 60.0
DEFAULT_LIMIT = "5m"
SELFTEST_ENGINES = (HOROVOD_ENGINE, DDP_ENGINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions:
    """What to predict, over which network, with which settings."""

    np: Sizes | None = option(
        None,
        "Numbers of ranks to predict, such as 16,32,64; doublings of the largest measured one up "
        "to x16 when not given.",
        "--np",
        "-np",
        panel=DESIGN,
    )
    model: str | None = option(
        None,
        "Model of the run, where it has several. Without a run: a reference model, or "
        "MODULE:FUNCTION.",
        "--model",
        panel=DESIGN,
    )
    engine: str | None = option(
        None,
        f"{', '.join(ENGINES)}; horovod where measured.",
        "--engine",
        panel=DESIGN,
        known=ENGINES,
    )
    samples_per_s: str | float | None = option(
        None,
        "Samples per second of one rank alone, or a range such as 115-162: predict --model without "
        "a run.",
        "--samples-per-s",
        panel=DESIGN,
    )
    batch_size: int | None = option(
        None,
        "Samples per rank and step of a model without a run; 64 when not given.",
        "--batch-size",
        panel=DESIGN,
        lowest=1,
    )
    device: str = option(
        "cuda",
        f"{', '.join(DEVICES)}: where a model without a run is computed.",
        "--device",
        panel=DESIGN,
        known=DEVICES,
    )
    scaling: str = option(
        WEAK,
        "weak keeps the batch per rank, strong the global batch.",
        "--scaling",
        panel=DESIGN,
        known=(WEAK, STRONG),
    )
    target: Amount = option(
        DEFAULT_TARGET,
        "Efficiency of the largest useful number of ranks.",
        "--target",
        panel=DESIGN,
    )
    hosts_of: int | None = option(
        None, "Ranks per host; as in the run when not given.", "--hosts-of", panel=NETWORK, lowest=1
    )
    link: tuple[str, ...] = option(
        (),
        "Network between hosts, such as 25Gbit,15us; one forecast for each that is given.",
        "--link",
        panel=NETWORK,
        repeated=True,
    )
    intra: str | None = option(
        None,
        "Links inside a host: shm, or nvlink:300GB/s; as in the run when not given.",
        "--intra",
        panel=NETWORK,
    )
    algorithm: str | None = option(
        None,
        f"{', '.join(ALGORITHMS)}; the one that fits the measured collectives when not given.",
        "--algorithm",
        panel=NETWORK,
        known=ALGORITHMS,
    )
    set: tuple[str, ...] = option(
        (),
        "A changed setting as NAME=VALUE: HOROVOD_FUSION_THRESHOLD, HOROVOD_CYCLE_TIME, "
        "compression, backward_passes_per_step, batch. Several with commas or several times.",
        "--set",
        panel=HOROVOD,
        repeated=True,
    )
    exclude_stragglers: bool = option(
        False,
        "Assume that added ranks have no stragglers like those of the run.",
        "--exclude-stragglers",
        panel=MEASUREMENT,
    )
    num_draws: int = option(
        2000,
        "Draws of the Monte Carlo simulation.",
        "--draws",
        panel=MEASUREMENT,
        lowest=100,
        highest=100_000,
    )
    seed: int = option(
        20180215, "Seed of its random numbers.", "--seed", panel=MEASUREMENT, lowest=0
    )

    def __post_init__(self) -> None:
        """Make lists tuples."""
        for field in fields(self):
            if isinstance(value := getattr(self, field.name), list):
                object.__setattr__(self, field.name, tuple(value))

    def check(self) -> None:
        """Check what needs no run.

        Raises:
            UsageError: A number is out of bounds, a text is not among the known ones, or a setting
                is not NAME=VALUE.
        """
        for name, one in declared(type(self)):
            value = getattr(self, name)
            if one.known and value is not None:
                check_known(one.flags[0], value, one.known)
            if one.lowest is not None:
                check_number(one.flags[0], value, one.lowest, one.highest)
        parse_target("--target", self.target)
        parse_settings(self.set)


def parse_settings(given: Sequence[str]) -> dict[str, str]:
    """Settings by name, of ``NAME=VALUE`` texts that may join several with commas.

    Raises:
        UsageError: A part is not NAME=VALUE, or a name is given twice.
    """
    found: dict[str, str] = {}
    for part in (part.strip() for text in given for part in text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise UsageError(
                f"--set {part!r} is not NAME=VALUE.", hint="--set compression=fp16,batch=64"
            )
        if name in found:
            raise UsageError(f"--set {name} is given twice.")
        found[name] = value
    return found


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
        DEFAULT_LIMIT, "No launch starts after this time, 5m or 90s.", "--limit", panel=MEASUREMENT
    )
    output: str | Path | None = option(
        None,
        "Keep the runs in this folder; they are deleted when not given.",
        "--output",
        "-o",
        panel=OUTPUT,
    )
