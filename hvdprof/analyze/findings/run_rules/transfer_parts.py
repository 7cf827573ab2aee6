"""What exposed transfer consists of: how much executes, and what to do where it negotiates.

Only a trace pass splits it.
"""

import math

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, Likely, advice, in_turn, set_to
from hvdprof.analyze.findings.cell_finding import CostlyCause
from hvdprof.analyze.findings.copy_evidence import HALF
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.horovod_cycle import CYCLE_TIME, cycle_ms
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.model.cell_key import LAUNCH
from hvdprof.model.tables.run_tables import WAITS

LARGE_COPIES = 0.05
"""Share of exposed transfer from which copies into and out of the fusion buffer are named."""

MOSTLY_NEGOTIATES = 0.5
"""Where collectives execute in a smaller share of exposed transfer, negotiation is its cause."""

SHORT_CYCLE_MS = 0.1
USUAL_CACHE = 1024
"""Entries of Horovod's response cache unless HOROVOD_CACHE_CAPACITY says otherwise."""

ONLY_NEGOTIATES = Advice("Another controller negotiates differently, but carries no gradients.")
_COMPARE_CONTROLLERS = advice(
    "compare `--controller mpi` and `--controller gloo`: the controller negotiates",
    "Set backward_passes_per_step= to negotiate less often. Neither compression nor a faster "
    "network helps.",
)
_NEGOTIATE_LESS_OFTEN = advice(
    "set backward_passes_per_step= to negotiate less often",
    "Neither compression nor a faster network helps.",
)
_FEWER_COLLECTIVES = advice(
    "call collectives of metrics and objects every few steps, or join them into one",
    "The table `waits` has each of them, as user.",
)


def of_script(evidence: Evidence, term: CostlyCause) -> Likely | None:
    """Where most steps spend most of the transfer in collectives that the script calls itself."""
    waits = evidence.rows_of(evidence.table(WAITS.name), term.cell)
    # The last rank to arrive waits for the transfer alone.
    times = waits.groupby([*LAUNCH, "step", "number", "kind"], observed=True)["dur_ns"].min()
    own = times[times.index.get_level_values("kind") == "user"]
    num_steps = len(own.groupby([*LAUNCH, "step"]).size())
    if 2 * num_steps < term.cell["num_steps"] or not own.sum() > HALF * times.sum():
        return None
    share = units.percent(own.sum() / times.sum(), 0)
    return Likely(
        "exposed-transfer",
        "exposed collectives of the script",
        f"{share} of it is in collectives that the script calls itself, not in gradients.",
        _FEWER_COLLECTIVES,
    )


def executed_share(term: CostlyCause) -> str:
    """How much of exposed transfer of Horovod is execution, or why that is unknown."""
    share = float(term.row["executing_share"])
    if math.isnan(share):
        return f"Execution and negotiation are not split: {_why_not_split(term)}."
    executes, rest = units.percent(share, 0), units.percent(1 - share, 0)
    copying = float(term.row["copying_share"])
    copies = (
        f", {units.percent(copying, 0)} with copies for fusion" if copying >= LARGE_COPIES else ""
    )
    return (
        f"A collective executes in {executes} of that time{copies}. Negotiation and Horovod's "
        f"cycle take the other {rest}."
    )


def _why_not_split(term: CostlyCause) -> str:
    if not trace_differs(term):
        return "no trace pass"
    traced, own = (units.milliseconds(float(term.row[name])) for name in ("traced_ns", "time_ns"))
    return f"the trace pass has {traced} of exposed transfer per step, the others {own}"


def trace_differs(term: CostlyCause) -> bool:
    """Whether the trace pass has too different an exposed transfer to split it."""
    traced_ns, executing = (float(term.row[name]) for name in ("traced_ns", "executing_share"))
    return math.isnan(executing) and not math.isnan(traced_ns)


def negotiation(
    evidence: Evidence, term: CostlyCause, place: str, free_cores: Advice
) -> Likely | None:
    """What to change where exposed transfer is mostly negotiation and Horovod's cycle.

    None where collectives execute in most of it, or where that is unknown.

    Args:
        evidence: The run.
        term: Its exposed transfer in a cell of Horovod.
        place: Between what the ranks negotiate: ``between GPUs``.
        free_cores: What gives Horovod's threads cores; empty where they have some.
    """
    executing = float(term.row["executing_share"])
    if not executing < MOSTLY_NEGOTIATES:
        return None
    present, is_elastic = cycle_ms(evidence), cell_setting(evidence.run, term.cell).is_elastic
    return Likely(
        "exposed-transfer",
        f"exposed negotiation {place}",
        "No collective executes meanwhile: the ranks agree on what to reduce next.",
        in_turn(
            free_cores,
            set_to(f"{CYCLE_TIME}={SHORT_CYCLE_MS:g}", unit="milliseconds")
            # Shorter cycles take more of the cores that are missing.
            if present > SHORT_CYCLE_MS and free_cores == Advice()
            else Advice(),
            _larger_cache(evidence),
            _NEGOTIATE_LESS_OFTEN if is_elastic else _COMPARE_CONTROLLERS,
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
