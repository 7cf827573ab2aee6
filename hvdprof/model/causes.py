"""The causes of lost time and the remedies of the replay, and what a reader calls them."""

COMPUTE_INFLATION = "compute-inflation"
PERSISTENT_IMBALANCE = "persistent-imbalance"
TRANSIENT_IMBALANCE = "transient-imbalance"
SERIALIZATION = "serialization"
EXPOSED_TRANSFER = "exposed-transfer"
BASELINE_CREDIT = "baseline-credit"
RESIDUAL_TERM = "residual"

CAUSES: dict[str, str] = {
    COMPUTE_INFLATION: "slower own work of all ranks",
    PERSISTENT_IMBALANCE: "one rank always slower",
    TRANSIENT_IMBALANCE: "ranks slow by turns",
    SERIALIZATION: "time between and around steps",
    EXPOSED_TRANSFER: "exposed transfer",
    BASELINE_CREDIT: "what the baseline loses itself",
}
"""The terms of ``model.waterfall_tables.WATERFALL`` in their order, as they stand in a sentence."""

ON_TIME = "rank on time"
EVEN_RANKS = "even ranks"
NO_JITTER = "no jitter"
IDEAL_NETWORK = "ideal network"
NO_DATA = "no data phase"

REMEDIES: dict[str, str] = {
    ON_TIME: "the rank is as quick as the median of the others",
    EVEN_RANKS: "all ranks need the same time in every step",
    NO_JITTER: "every rank needs its mean time in every step",
    IDEAL_NETWORK: "transfers take no time",
    NO_DATA: "data are always there",
}
"""The remedies of ``model.waterfall_tables.CEILINGS``."""
