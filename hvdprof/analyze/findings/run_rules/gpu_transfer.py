"""The rule on exposed communication on GPUs: the controller negotiates, NCCL carries the data.

Tested in ``tests/analyze/findings/test_gpu_transfer.py``.
"""

from hvdprof import units
from hvdprof.analyze.findings.cell_finding import CostlyCause
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import sentences
from hvdprof.analyze.findings.horovod_cycle import cycle_ms
from hvdprof.analyze.findings.run_rules.likely_cause import Likely

MOSTLY_NEGOTIATES = 0.5
"""Where collectives execute in a smaller share of exposed transfer, negotiation is its cause."""

SHORT_CYCLE_MS = 0.1
USUAL_CACHE = 1024
"""Entries of Horovod's response cache unless HOROVOD_CACHE_CAPACITY says otherwise."""

LOOK_AT_NCCL = (
    "Run with NCCL_DEBUG=INFO and pass the log to `hvdprof analyze`: it shows the network, rings "
    "and protocols that NCCL chose."
)
ONLY_NEGOTIATES = "Another controller negotiates differently, but carries no gradients."


def negotiation(evidence: Evidence, term: CostlyCause) -> Likely | None:
    """What to change where exposed transfer on GPUs is mostly negotiation and Horovod's cycle.

    None where collectives execute in most of it, or where that is unknown.

    Args:
        evidence: The run.
        term: Its exposed transfer in a cell of Horovod on GPUs.
    """
    executing = float(term.row["executing_share"])
    if not executing < MOSTLY_NEGOTIATES:
        return None
    present = cycle_ms(evidence)
    return Likely(
        "exposed-transfer",
        "Exposed negotiation between GPUs",
        "NCCL is idle meanwhile: the ranks agree on what to reduce next.",
        sentences(
            f"Set HOROVOD_CYCLE_TIME={SHORT_CYCLE_MS:g} (milliseconds)."
            if present > SHORT_CYCLE_MS
            else "",
            _larger_cache(evidence),
            "Compare `--controller mpi` and `--controller gloo`: the controller negotiates.",
            "Set backward_passes_per_step= to negotiate less often.",
            "Neither compression nor a faster network helps.",
        ),
    )


def _larger_cache(evidence: Evidence) -> str:
    """Tensors that the response cache does not hold are negotiated in full."""
    gradients = evidence.run.segments["num_tensors"].max()
    text = evidence.setting("HOROVOD_CACHE_CAPACITY") or ""
    capacity = int(text) if text.isdigit() else USUAL_CACHE
    if not gradients > capacity:
        return ""
    return (
        f"Set HOROVOD_CACHE_CAPACITY={2 * int(gradients)}: {units.count(int(gradients))} gradients "
        f"are more than the {units.count(capacity)} entries of the response cache."
    )
