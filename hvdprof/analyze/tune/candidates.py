"""The settings that are worth a try on a run, each with its evidence, and what is not tried.

A setting is a candidate only where it can have an effect on this run: its engine, ranks, hosts and
gradients. A value that the user set and that differs from the default is always one, so that a bad
value is found also where no finding names it. Ladders of values replace one guess.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hvdprof.analyze.tune import ddp_rules as ddp
from hvdprof.analyze.tune import horovod_rules as horovod
from hvdprof.analyze.tune import placement_rules as placement
from hvdprof.analyze.tune import script_rules as script
from hvdprof.analyze.tune.proposal import Proposal, Untried
from hvdprof.analyze.tune.tuned_job import TunedJob
from hvdprof.model.results.tuning import Candidate
from hvdprof.rundir.launch_format import DDP_ARGUMENTS

Rule = Callable[[TunedJob], Iterator[Proposal]]

RULES: tuple[Rule, ...] = (
    horovod.cycle_time,
    horovod.fusion_threshold,
    placement.threads,
    placement.wait_policy,
    placement.binding,
    horovod.cache_capacity,
    script.switches,
    placement.controller,
    horovod.hierarchical_allreduce,
    placement.thread_affinity,
    placement.ranks_per_host,
    ddp.buckets,
    ddp.bucket_view,
    ddp.unused_parameters,
    ddp.static_graph,
    script.fp16_compression,
    script.accumulation,
)

VARIABLES: tuple[str, ...] = (
    horovod.CYCLE.variable,
    horovod.FUSION.variable,
    horovod.CACHE.variable,
    horovod.HIERARCHICAL,
    *(row.variable for row in script.SWITCHES),
    *DDP_ARGUMENTS,
    placement.THREADS.variable,
    placement.MKL_THREADS,
    placement.WAIT_POLICY,
    placement.AFFINITY,
    placement.BINDING,
)
"""The variables that candidates set."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """What to try, and what is not tried.

    Attributes:
        candidates: The settings to try, without predictions.
        untried: What is not tried, and why.
    """

    candidates: tuple[Candidate, ...]
    untried: tuple[Untried, ...]


def proposals(job: TunedJob) -> Proposals:
    """The candidates of all rules, each setting once, and what is not tried."""
    found = [proposal for rule in RULES for proposal in rule(job)]
    candidates = {
        proposal.name: proposal for proposal in reversed(found) if isinstance(proposal, Candidate)
    }
    untried = tuple(proposal for proposal in found if isinstance(proposal, Untried))
    if not job.matters and (job.is_horovod or job.is_ddp):
        untried = (*untried, _without_communication(job))
    return Proposals(tuple(reversed(candidates.values())), untried)


def _without_communication(job: TunedJob) -> Untried:
    share = f"{100 * job.communication_share:.1f} %"
    return Untried(
        "communication",
        f"Communication takes {share} of the step, so its settings cannot save "
        f"{100 * job.margin:g} %.",
    )
