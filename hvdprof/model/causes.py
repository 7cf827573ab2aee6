"""The causes of lost time and the remedies of the replay, with their names in texts.

Tested in ``tests/model/test_glossary.py``.
"""

COMPUTE_INFLATION = "compute-inflation"
PERSISTENT_IMBALANCE = "persistent-imbalance"
TRANSIENT_IMBALANCE = "transient-imbalance"
SERIALIZATION = "serialization"
EXPOSED_TRANSFER = "exposed-transfer"
BASELINE_CREDIT = "baseline-credit"
RESIDUAL_TERM = "residual"

CAUSES: dict[str, str] = {
    COMPUTE_INFLATION: "compute slowdown",
    PERSISTENT_IMBALANCE: "persistent straggler",
    TRANSIENT_IMBALANCE: "transient imbalance (jitter)",
    SERIALIZATION: "inter-step overhead (serialization)",
    EXPOSED_TRANSFER: "exposed communication (transfer)",
    BASELINE_CREDIT: "baseline overhead (credit)",
}
"""Names of the causes in ``model.tables.waterfall_tables.WATERFALL``, in its order."""

TERMS: dict[str, str] = {**CAUSES, RESIDUAL_TERM: "rounding residual"}
"""Names of all terms of ``WATERFALL``, the residual last."""

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
