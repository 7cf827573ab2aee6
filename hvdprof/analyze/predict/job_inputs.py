"""What a forecast needs of a job, whether a run measured it or priors state it."""

from dataclasses import dataclass, field, replace

import numpy as np

from hvdprof.analyze.predict.costs.cost_draws import CostDraws
from hvdprof.analyze.predict.costs.ddp_buckets import simulate_ddp
from hvdprof.analyze.predict.costs.gradient_trace import Gradients
from hvdprof.analyze.predict.costs.negotiation_draws import Negotiates
from hvdprof.analyze.predict.horovod_loop import LoopSettings, random_phase, simulate_loop
from hvdprof.analyze.predict.own_work import OwnWork
from hvdprof.analyze.predict.rank_spread import RankSpread
from hvdprof.analyze.predict.step_communication import CostNs, StepCommunication
from hvdprof.model.arrays import Float64s, Int64s


@dataclass(frozen=True, slots=True)
class Reduction:
    """What reduces the gradients of a step.

    Attributes:
        gradients: As they are sent, in the order of their ready times.
        loop: Horovod's loop.
        buckets: Of DDP, by places of gradients; None under Horovod.
    """

    gradients: Gradients
    loop: LoopSettings = field(default_factory=LoopSettings)
    buckets: tuple[Int64s, ...] | None = None

    def simulate(
        self,
        rng: np.random.Generator,
        ready_ns: Float64s,
        cost_ns: CostNs,
        negotiation_ns: Float64s,
    ) -> StepCommunication:
        """The communication of one step per row.

        Args:
            rng: Source of the phase of Horovod's loop.
            ready_ns: [rows, gradients]
            cost_ns: Time of collectives.
            negotiation_ns: [rows] Time of one negotiation.
        """
        sent = self.gradients.size_bytes
        if self.buckets is not None:
            return simulate_ddp(ready_ns, sent, self.buckets, cost_ns=cost_ns)
        settings = replace(self.loop, negotiation_ns=negotiation_ns)
        return simulate_loop(
            ready_ns,
            sent,
            settings,
            cost_ns=cost_ns,
            cycle_start_ns=random_phase(rng, ready_ns, settings),
            dtype_codes=self.gradients.dtype_codes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInputs:
    """A job of which other numbers of ranks are predicted.

    Attributes:
        num_ranks: Ranks of the reference cell.
        ranks_per_host: Of its fullest host.
        own: Own work of the reference cell and of the baseline.
        spread: How much the ranks differ.
        reduction: How the gradients are reduced, as measured.
        offsets_ns: [steps, gradients] When the last rank has each gradient ready, minus the time
            at which the last rank waits for all of them: at most 0. Rows are recorded steps.
        costs: Time of collectives on the links of the run.
        negotiates: How the ranks agree on what is ready.
        is_anchored: Whether the exposed time of the reference was measured: the difference to the
            model is then kept at all sizes.
        step_factor: Of a stated job, the baseline's step time lies within the stated one divided
            and multiplied by it, uniform in the logarithm.
    """

    num_ranks: int
    ranks_per_host: int
    own: OwnWork
    spread: RankSpread
    reduction: Reduction
    offsets_ns: Float64s
    costs: CostDraws
    negotiates: Negotiates = Negotiates.BY_MPI_CACHE
    is_anchored: bool = True
    step_factor: float = 1.0
