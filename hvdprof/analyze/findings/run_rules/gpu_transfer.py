"""The rule on exposed communication on GPUs: who negotiates, and who carries the data."""

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, Likely, advice, in_turn, set_to
from hvdprof.analyze.findings.cell_finding import CostlyCause
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.horovod_cycle import CYCLE_TIME, cycle_ms

MOSTLY_NEGOTIATES = 0.5
"""Where collectives execute in a smaller share of exposed transfer, negotiation is its cause."""

SHORT_CYCLE_MS = 0.1
USUAL_CACHE = 1024
"""Entries of Horovod's response cache unless HOROVOD_CACHE_CAPACITY says otherwise."""

LOOK_AT_NCCL = advice(
    "run with NCCL_DEBUG=INFO and pass the log to `hvdprof analyze`: it shows the network, rings "
    "and protocols that NCCL chose",
    command="hvdprof analyze",
)
ONLY_NEGOTIATES = Advice("Another controller negotiates differently, but carries no gradients.")
_COMPARE_CONTROLLERS = advice(
    "compare `--controller mpi` and `--controller gloo`: the controller negotiates",
    "Set backward_passes_per_step= to negotiate less often. Neither compression nor a faster "
    "network helps.",
)


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
        "exposed negotiation between GPUs",
        "No collective executes meanwhile: the ranks agree on what to reduce next.",
        in_turn(
            set_to(f"{CYCLE_TIME}={SHORT_CYCLE_MS:g}", unit="milliseconds")
            if present > SHORT_CYCLE_MS
            else Advice(),
            _larger_cache(evidence),
            _COMPARE_CONTROLLERS,
        ),
    )


def _larger_cache(evidence: Evidence) -> Advice:
    """Tensors that the response cache does not hold are negotiated in full."""
    gradients = evidence.run.segments["num_tensors"].max()
    text = evidence.setting("HOROVOD_CACHE_CAPACITY") or ""
    capacity = int(text) if text.isdigit() else USUAL_CACHE
    if not gradients > capacity:
        return Advice()
    return set_to(
        f"HOROVOD_CACHE_CAPACITY={2 * int(gradients)}",
        f": {units.count(int(gradients))} gradients are more than the {units.count(capacity)} "
        "entries of the response cache",
    )
