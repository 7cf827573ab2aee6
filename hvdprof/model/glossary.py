"""The terms of reports, dashboard and documentation, each defined once.

docs/reference/glossary.md is generated from this list; the dashboard shows the definitions as
tooltips.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A term: its definition in one or two sentences, and its formula or source.

    ``formula`` is empty where the definition is complete without one.
    """

    name: str
    definition: str
    formula: str = ""

    @property
    def anchor(self) -> str:
        """The fragment of the term's heading in the generated page, as Python-Markdown forms it."""
        words = re.sub(r"[^\w\s-]", "", self.name).strip().lower()
        return re.sub(r"[-\s]+", "-", words)


GLOSSARY: tuple[Term, ...] = (
    Term("rank", "One training process of the job, numbered as `hvd.rank()` returns it."),
    Term("step", "One optimizer step on every rank of the job."),
    Term(
        "step time",
        "Time between the moments at which the last rank ends two successive steps. The step times "
        "of a launch sum to its wall time.",
        "T_k = e_k - e_(k-1), e_k = max over ranks of the end of step k",
    ),
    Term(
        "cell",
        "One configuration of the sweep: a model on a number of ranks with its engine, "
        "compression and reduction.",
    ),
    Term(
        "launch",
        "One start of all ranks at one rank count. A cell runs once per launch; launches are the "
        "independent repeats behind every interval.",
    ),
    Term(
        "pass",
        "A launch in one mode: throughput, trace or attribution. Its files are in one folder of "
        "the run directory.",
    ),
    Term("segment", "The part of a pass that trains one model with one setting of the toggles."),
    Term(
        "warm-up",
        "Steps before the steady state, excluded from every number: the counted warm-up batches, "
        "and further steps detected by MSER-5.",
        "White, Cobb and Spratt, Winter Simulation Conference 2000",
    ),
    Term(
        "steady state",
        "The steps of a launch after warm-up. Step times and efficiencies are means over them.",
    ),
    Term(
        "baseline",
        "The cell that efficiencies refer to: the first measured of plain PyTorch on one rank, "
        "Horovod on one rank, Horovod on the fewest ranks. The report names it.",
    ),
    Term(
        "scaling efficiency",
        "Throughput per rank divided by throughput per rank of the baseline. 100 % is linear "
        "scaling.",
        "E = (x_N / N) / (x_N0 / N0), x in samples/s",
    ),
    Term("speed-up", "Throughput divided by the throughput of the baseline.", "S = x_N / x_N0"),
    Term(
        "serial fraction (Karp-Flatt)",
        "Share of the work that does not scale, computed from the measured speed-up. Constant over "
        "sizes: a serial part; rising with the size: growing overhead.",
        "e = (1/S - 1/N) / (1 - 1/N)",
    ),
    Term(
        "throughput pass",
        "Launch without a timeline. The only source of step times and efficiencies.",
    ),
    Term(
        "trace pass",
        "Launch with `HOROVOD_TIMELINE`. Source of collectives, negotiation, fusion and overlap.",
    ),
    Term(
        "attribution pass",
        "Trace pass with `HOROVOD_CACHE_CAPACITY=0`, so that Horovod's timeline holds the ready "
        "mark of each rank in each step. Not used for step times.",
    ),
    Term(
        "trace overhead",
        "Relative increase of the step time in the trace pass.",
        "T(trace pass) / T(throughput pass) - 1",
    ),
    Term(
        "collective",
        "One executed operation on the network, such as an allreduce. It can carry many fused "
        "tensors; its duration and bytes count once.",
    ),
    Term("ready time", "Time at which the backward pass of a rank has produced a gradient."),
    Term(
        "negotiation",
        "Time from the first rank that submits a tensor to the last one, as rank 0 sees it.",
    ),
    Term(
        "cycle time",
        "Period of Horovod's background loop, in which ranks exchange what is ready "
        "(`HOROVOD_CYCLE_TIME`, 1 ms by default). Negotiation is measured in whole cycles.",
    ),
    Term(
        "response cache",
        "Horovod's cache of negotiated tensors. Cached tensors skip the full negotiation, and the "
        "timeline then holds no ready marks of the ranks.",
        "HOROVOD_CACHE_CAPACITY, 1024 by default",
    ),
    Term(
        "fusion",
        "Packing of several tensors into one buffer, reduced by one collective.",
        "HOROVOD_FUSION_THRESHOLD, 128 MiB by default",
    ),
    Term("transfer", "The NCCL, MPI or Gloo part of a collective alone, without waits and copies."),
    Term(
        "algbw",
        "Algorithm bandwidth of a collective, as in nccl-tests.",
        "algbw = bytes / transfer time",
    ),
    Term(
        "busbw",
        "Bus bandwidth of a collective, as in nccl-tests: comparable with the speed of the link "
        "for any number of ranks.",
        "busbw = algbw x f; allreduce f = 2(n-1)/n; allgather, reducescatter, alltoall "
        "f = (n-1)/n; broadcast f = 1",
    ),
    Term(
        "latency and bandwidth (alpha, beta)",
        "Line through the transfer times of all payloads, by the Theil-Sen slope. It describes the "
        "job, stragglers included, not the wire.",
        "transfer = alpha + beta x bytes",
    ),
    Term(
        "overlap",
        "Share of the communication of a rank that its own computation covers.",
        "|communication ∩ computation| / |communication|, unions of intervals",
    ),
    Term(
        "exposed communication",
        "Communication that is not covered by the rank's own computation.",
        "|communication \\ computation|, unions of intervals",
    ),
    Term(
        "blocking exposed communication",
        "The part of exposed communication during which the rank is blocked in `synchronize()` or "
        "`step()`. It includes the wait for stragglers; tables show it as `blocked`.",
    ),
    Term(
        "straggler",
        "A rank with significant lateness. The lateness costs at least 5 % of the step time, or is "
        "that large in most steps.",
        "lateness = time from release to arrival - median of the other ranks in the same step",
    ),
    Term("persistent straggler", "A straggler that is late in at least two thirds of the steps."),
    Term(
        "rotating stragglers (jitter)",
        "Waiting for the last rank costs at least 5 % of the step, but no single rank causes 80 % "
        "of it.",
    ),
    Term(
        "stall",
        "At least one rank waits in a collective without any change for the time of "
        "`--stall-warn`, because another rank has not submitted.",
    ),
    Term(
        "hang",
        "No progress on any rank for the time of `--timeout`. A collective is hung if all ranks "
        "are in it and it does not end.",
    ),
    Term(
        "wait",
        "Time from a rank's own arrival at a collective to the arrival of the last rank.",
        "wait = min(A, e_r) - a_r; a_r arrival, e_r end on rank r, A last arrival",
    ),
    Term(
        "caused wait (Shapley)",
        "Share of all waiting that one rank causes. Sums over ranks to all waiting.",
        "the cost j x gap of each gap, in which j of N ranks wait, is split equally among the "
        "N - j ranks still missing",
    ),
    Term(
        "wait as last rank",
        "Gap between the second-last arrival and the arrival of the last rank.",
        "A - second-latest arrival",
    ),
    Term(
        "step-time cost",
        "What the time of a rank beyond the shared one adds to the step: its Shapley value, summed "
        "over the phases. Most waits are hidden, so it is usually below the caused wait.",
    ),
    Term(
        "clock error",
        "Bound u on the error of a rank's clock against rank 0 after alignment. No wait below 2u "
        "is attributed to a rank.",
        "u = half of the interval that clock exchange and collectives leave",
    ),
    Term(
        "replay",
        "Recomputation of measured steps with one thing changed, such as an ideal network.",
        "A_k = max over ranks of (E_(k-1) + before_k); E_k = A_k + tail_k + after_k",
    ),
    Term(
        "waterfall",
        "Split of the lost time of a cell by cause. The terms sum exactly to the difference from "
        "the baseline; without a baseline, from the compute of the normal ranks.",
        "sum of terms = T_N - w T_1",
    ),
    Term(
        "normal ranks",
        "The ranks without a straggler's or pause's delay in a step. Compute slowdown, input and "
        "time outside all phases are what at least half of them spend.",
    ),
    Term(
        "Shapley value",
        "Mean over all orders of causes of what a cause adds to the step time when it joins. The "
        "values sum exactly to the cost of all causes together.",
        "sum over sets S of |S|! (n - |S| - 1)! / n! x (v(S with c) - v(S))",
    ),
    Term(
        "POP factors",
        "Factors of the efficiency after the POP methodology: computation scaling, load balance, "
        "serialization and transfer efficiency. 0.8 and more is usually acceptable.",
        "E = CompScal x LB x SerE x TE / PE(baseline)",
    ),
    Term(
        "compute slowdown",
        "Increase of the compute of the normal ranks (forward, backward, optimizer) against the "
        "baseline.",
        "C - w C_1",
    ),
    Term(
        "load imbalance",
        "Own work of the slowest rank above the mean. The waterfall splits it into stragglers and "
        "jitter.",
        "1 - LB",
    ),
    Term(
        "pause of all ranks",
        "Delay of all ranks in the same step, such as by evaluation or garbage collection.",
    ),
    Term("jitter", "Differences between ranks within a step that have no name of their own."),
    Term(
        "input (all ranks)",
        "Time in the data phase that half of the normal ranks spend, beyond the baseline, and "
        "waits of one rank at a time. The name says who waits: input (rank 1 waits longest), input "
        "(ranks wait in turn).",
        "D - w D_1",
    ),
    Term(
        "outside all phases",
        "Time before the update and outside all phases that half of the normal ranks spend, "
        "beyond the baseline, within and between steps.",
        "O - w O_1",
    ),
    Term(
        "exposed transfer",
        "Cost of the time after the last rank has arrived until the reduced gradients are there. "
        "Waits for stragglers are not in it.",
    ),
    Term(
        "baseline overhead (credit)",
        "Time that the baseline itself spends waiting and in transfers, subtracted because the "
        "cell is compared with it.",
        "-w (T_1 - C_1 - D_1 - O_1)",
    ),
    Term("rounding residual", "Rounding of floating-point sums that the terms leave."),
    Term(
        "change of one rank",
        "One rank takes longer in a phase than in the first run, the other ranks do not. Its term "
        "is what the replayed step loses when the change is taken out.",
    ),
    Term(
        "forward (all ranks)",
        "Time of the normal ranks in forward, a term of comparisons. Backward and optimizer have "
        "the same terms.",
    ),
    Term(
        "potential gain",
        "Largest reduction of the step time if a problem were fixed, from the replay with that one "
        "thing made perfect. Gains overlap and must not be added up.",
    ),
    Term(
        "95 % CI",
        "Confidence interval: a number is given as value (low to high). Step times use Student's t "
        "over launches, ratios the same on logarithms.",
    ),
    Term(
        "effective sample size",
        "Number of independent values with the same standard error as the correlated ones.",
        "n_eff = n / (1 + 2 x sum of autocorrelations)",
    ),
    Term(
        "oversubscribed",
        "More ranks than cores or GPUs on a host. Such cells are measured, labelled, and excluded "
        "from scaling statements.",
    ),
)
"""Every term, in the order in which a reader meets them."""


def term(name: str) -> Term:
    """The definition of a term.

    Raises:
        KeyError: The glossary has no such term.
    """
    return _BY_NAME[name]


_BY_NAME = {each.name: each for each in GLOSSARY}
