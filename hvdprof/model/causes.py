"""The parts of a step's time, the causes of lost time and the remedies, with their names."""

STRAGGLER = "straggler"
PAUSE = "pause"
JITTER = "jitter"
OUTSIDE_PHASES = "outside"
EXPOSED_TRANSFER = "exposed-transfer"
COMPUTE_INFLATION = "compute-inflation"
INPUT_BOUND = "input-bound"
BASELINE_CREDIT = "baseline-credit"
RESIDUAL_TERM = "residual"
MODEL_ERROR = "model-error"
"""What a forecast adds for effects outside its model, a term of forecasts alone."""

RANK_CHANGE = "rank-change"
"""A rank whose own time changed against the others, a term of comparisons alone."""

OWN_WORK = "own-work"
"""Time of the normal ranks in steps without phases, a term of comparisons alone."""

SHARED_PHASES: tuple[str, ...] = ("forward", "backward", "optimizer")
"""The phases of computing: time of the normal ranks there makes terms of comparisons alone."""

CAUSES: dict[str, str] = {
    STRAGGLER: "straggler",
    PAUSE: "pause of all ranks",
    JITTER: "jitter",
    EXPOSED_TRANSFER: "exposed transfer",
    INPUT_BOUND: "input (all ranks)",
    OUTSIDE_PHASES: "outside all phases",
    COMPUTE_INFLATION: "compute slowdown",
    BASELINE_CREDIT: "baseline overhead (credit)",
}
"""Names of the causes in ``model.tables.waterfall_tables.WATERFALL``, in its order.

A cell has a row for each named straggler and pause, and at most one for each other cause.
"""

SHORT_NAMES: dict[str, str] = {
    **CAUSES,
    INPUT_BOUND: "input",
    OUTSIDE_PHASES: "time outside all phases",
    BASELINE_CREDIT: "baseline overhead",
    MODEL_ERROR: "mean model error",
}
"""The names where there is little room, with that of the error of a forecast."""

TERMS: dict[str, str] = {**CAUSES, RESIDUAL_TERM: "rounding residual"}
"""Names of all terms of ``WATERFALL``, those that are no causes last."""

COMPARED_TERMS: dict[str, str] = {
    RANK_CHANGE: "change of one rank",
    **{term: CAUSES[term] for term in (STRAGGLER, PAUSE, JITTER, EXPOSED_TRANSFER)},
    **{term: CAUSES[term] for term in (INPUT_BOUND, OUTSIDE_PHASES)},
    **{phase: f"{phase} (all ranks)" for phase in SHARED_PHASES},
    OWN_WORK: "own work (all ranks)",
}
"""Names of the terms of ``model.tables.comparison_tables.MOVED_CAUSES``: they make up a step."""

FORECAST_TERMS: dict[str, str] = {
    **{term: CAUSES[term] for term in (EXPOSED_TRANSFER, STRAGGLER, JITTER)},
    **{term: CAUSES[term] for term in (COMPUTE_INFLATION, INPUT_BOUND, OUTSIDE_PHASES)},
    MODEL_ERROR: "mean model error",
    BASELINE_CREDIT: CAUSES[BASELINE_CREDIT],
}
"""Names of the terms of ``model.tables.forecast_tables.FORECAST_CAUSES``, in its order."""

BANDWIDTH, LATENCY, NEGOTIATION = "bandwidth", "latency", "negotiation"
NOT_IN_MODEL = "not in the model"
TRANSFER_PARTS = (BANDWIDTH, LATENCY, NEGOTIATION, NOT_IN_MODEL)
"""Parts of exposed transfer in a forecast; the last is what was measured beyond the simulation."""

TRANSFER_PART_NAMES: dict[str, str] = {
    **{part: part for part in (BANDWIDTH, LATENCY, NEGOTIATION)},
    NOT_IN_MODEL: "measured overhead",
}
"""Names of these parts in texts."""

PART_NAMES: dict[str, str] = {
    "data": "data",
    "forward": "forward",
    "backward": "backward",
    "blocked": "blocked",
    "before_update": "before the update",
    "optimizer": "optimizer",
    "outside": "outside all phases",
    "residual": "between steps and waits between ranks",
}
"""Names of the parts of ``model.tables.scaling_tables.LOSSES``, as figures show them."""

RECORDED_PARTS: tuple[str, ...] = (
    "data",
    "forward",
    "backward",
    "blocked",
    "before_update",
    "optimizer",
    "outside",
)
"""The parts that the recorder measures on every rank; ``STEPS`` holds each as ``<part>_ns``."""

RESIDUAL = "residual"
"""Step time of the job minus the mean step time of its ranks."""

PARTS: tuple[str, ...] = (*RECORDED_PARTS, RESIDUAL)


def part_of_cause(part: str) -> str:
    """`` (latency)``, to follow the name of a cause; empty without a part."""
    return f" ({TRANSFER_PART_NAMES[part]})" if part else ""


def cause_id(term: str, ranks: str = "", phase: str = "", pattern: str = "") -> str:
    """What identifies a row of WATERFALL within its cell, ``straggler/1+3/data/persistent``."""
    return "/".join(filter(None, (term, ranks.replace(", ", "+"), phase, pattern)))


ALL_RANKS, ANY_RANK = "all", "any"
"""Ranks of a pause; ranks of delays that hit now one rank, now another."""

ON_TIME = "rank on time"
EVEN_RANKS = "even ranks"
NO_JITTER = "no jitter"
IDEAL_NETWORK = "ideal network"
NO_DATA = "no data phase"

REMEDIES: dict[str, str] = {
    ON_TIME: "the rank takes as long as the median of the other ranks",
    EVEN_RANKS: "all ranks take the same time in every step",
    NO_JITTER: "every rank takes its mean time in every step",
    IDEAL_NETWORK: "transfers take no time",
    NO_DATA: "the input is always ready",
}
"""Remedies of ``model.tables.waterfall_tables.CEILINGS`` and what each makes perfect."""
