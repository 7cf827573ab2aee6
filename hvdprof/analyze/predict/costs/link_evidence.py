"""What a run holds on latency and bandwidth, inside its hosts and between them.

Evidence, from the strongest to the weakest:

1. Allreduces that ran: the executions of traced launches (COLLECTIVES, which LINK_FIT summarizes
   for one number of ranks) and the allreduces of ``hvdprof net``.
2. Messages over TCP between hosts (NET_LINKS), as a prior of the network: collectives pay more per
   message than plain TCP.
3. NCCL's tuning table, as a prior of either level: NCCL's own estimate.
4. The general priors of ``algorithm_choice``.

The table holds NCCL's own estimates, not measurements. For a ring of n ranks on h hosts they are,
by ``tuning.cc``: ``latency = base + (steps - crossing) * intra + crossing * inter`` with
``steps = 2 (n-1)`` and ``crossing = 2 (h-1)``, and a bandwidth of ``busbw * n / steps``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.predict.costs.algorithm_choice import (
    PRIORS,
    AlgorithmChoice,
    choose_algorithm,
)
from hvdprof.analyze.predict.costs.cost_draws import GLOO, NCCL, OPEN_MPI_40, OPEN_MPI_41, Rule
from hvdprof.analyze.predict.costs.posterior_draws import Observations, Prior, observed_allreduces
from hvdprof.analyze.predict.measure_command import MeasureCommand
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.results.forecast import Missing
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.run_tables import RANKS
from hvdprof.model.tables.sample_tables import NET_LINKS, NET_TRANSFERS

_BASE_NS = 8_400.0
"""Ring with the protocol Simple, ``baseLat`` of ``tuning.cc``."""

_NVLINK_NS = 3_400.0
"""One hop over NVLink with the protocol Simple, ``hwLat`` of ``tuning.cc``."""

_LATENCY_ERROR, _BANDWIDTH_ERROR = 0.7, 0.4
"""Standard deviations of the logarithm: a factor of 2 and of 1.5."""

LEAST_SPAN = 8.0
"""Payloads that differ by less cannot separate latency from bandwidth, as in LINK_FIT."""

_TCP_LATENCY_ERROR, _TCP_BANDWIDTH_ERROR = 0.7, 0.3
_ALLREDUCES = "measured allreduces"
_SCENARIOS = "the forecast has one band for each of 1, 10, 25, 100 and 400 Gb/s"
_STATED = "the forecast is for the stated network"


def nccl_estimates(recordings: Sequence[NcclRecording]) -> dict[str, Prior]:
    """Priors of ``algorithm_choice.PARAMETERS`` by name, empty where no table was printed.

    Communicators on one host speak of the links inside it, those over several hosts of the
    network. The largest of each kind counts.
    """
    found: dict[str, Prior] = {}
    largest: dict[str, int] = {}
    for recording in recordings:
        rings = recording.tuning[
            (recording.tuning["operation"] == "AllReduce").to_numpy()
            & (recording.tuning["algorithm"] == "Ring").to_numpy()
            & (recording.tuning["protocol"] == "Simple").to_numpy()
            & (recording.tuning["bandwidth"] > 0).to_numpy()
        ]
        for row in rings.merge(_sizes(recording), on="communicator").to_dict("records"):
            num_ranks, num_hosts = int(row["num_ranks"]), int(row["hosts"])
            level = "intra" if num_hosts == 1 else "inter"
            if num_ranks <= largest.get(level, 1):
                continue
            largest[level] = num_ranks
            beta = num_ranks / (2 * (num_ranks - 1) * float(row["bandwidth"]))
            found[f"{level}_beta"] = Prior(beta, _BANDWIDTH_ERROR)
            alpha = _hop_ns(float(row["latency_ns"]), num_ranks, num_hosts)
            if alpha > 0:
                found[f"{level}_alpha"] = Prior(alpha, _LATENCY_ERROR)
    return found


def _hop_ns(latency_ns: float, num_ranks: int, num_hosts: int) -> float:
    steps, crossing = 2 * (num_ranks - 1), 2 * (num_hosts - 1)
    if not crossing:
        return (latency_ns - _BASE_NS) / steps
    return (latency_ns - _BASE_NS - (steps - crossing) * _NVLINK_NS) / crossing


def _sizes(recording: NcclRecording) -> pd.DataFrame:
    """Ranks and hosts of each communicator whose number of hosts is known.

    Logs up to 2.18 state no number of nodes: then it is that of the hosts seen, if all ranks were.
    """
    stated = recording.ranks.groupby("communicator", as_index=False)["num_nodes"].max()
    table = recording.communicators.merge(stated, on="communicator", how="left")
    seen = table["num_hosts"].where(table["num_ranks_seen"] == table["num_ranks"])
    table["hosts"] = table["num_nodes"].astype("Int64").fillna(seen.astype("Int64"))
    known = table[table["hosts"].notna() & table["num_ranks"].notna()]
    return known[["communicator", "num_ranks", "hosts"]]


@dataclass(frozen=True, slots=True)
class LinkEvidence:
    """What a run says on the cost of its allreduces.

    Attributes:
        observations: Measured allreduces; none in a run without traced launches.
        priors: A prior per parameter of ``algorithm_choice``.
        sources: By level, ``intra`` and ``inter``, where its numbers come from; no entry where
            the run holds nothing.
        documented: The rule that the library in use documents; None where it is unknown.
        missing: What the run does not hold, and which command measures it.
    """

    observations: Observations
    priors: Mapping[str, Prior]
    sources: Mapping[str, str]
    documented: Rule | None
    missing: tuple[Missing, ...]

    def measured(self, level: str) -> bool:
        """Whether allreduces ran over the links of a level, ``intra`` or ``inter``."""
        return self.sources.get(level) == _ALLREDUCES

    @property
    def knows_network(self) -> bool:
        """Whether the run holds anything on the network between hosts."""
        return "inter" in self.sources

    def choice(self, random: np.random.Generator, num_draws: int) -> AlgorithmChoice | None:
        """The fitted algorithms and links; None where no allreduce was measured."""
        if not len(self.observations):
            return None
        return choose_algorithm(
            self.observations,
            random,
            num_draws=num_draws,
            documented=self.documented,
            priors=self.priors,
        )


def link_evidence(
    analysis: RunAnalysis,
    command: MeasureCommand,
    sizes: Sequence[int],
    *,
    network_is_stated: bool = False,
) -> LinkEvidence:
    """The evidence of a run; of a run without any, an object without observations or sources.

    Args:
        analysis: The run.
        command: What measures more of its job.
        sizes: The numbers of ranks that it measured and that can be used.
        network_is_stated: Whether the question names networks between hosts; what the run lacks
            has another consequence then.
    """
    run = analysis.run
    controllers = pd.Series({record.id: record.controller for record in run.manifest.passes})
    controller = str(controllers.mode().iloc[0]) if len(controllers) else ""
    observed = observed_allreduces(
        analysis.table(COLLECTIVES.name),
        run.segments,
        run.table(RANKS.name),
        run.table(NET_TRANSFERS.name),
        {str(name) for name, used in controllers.items() if used == controller},
    )
    sources: dict[str, str] = {}
    priors = dict(PRIORS)
    estimated = nccl_estimates(run.nccl)
    over_tcp = _tcp_priors(analysis.table(NET_LINKS.name))
    for found, name in ((estimated, "NCCL's tuning table"), (over_tcp, "TCP between the hosts")):
        priors |= found
        sources |= {parameter.partition("_")[0]: name for parameter in found}
    sources |= dict.fromkeys(_measured_levels(observed), _ALLREDUCES)
    uses_nccl = any(len(recording.communicators) for recording in run.nccl)
    rule = NCCL if uses_nccl else documented_rule(controller, run.manifest.versions.get("mpi", ""))
    without_network = _STATED if network_is_stated else _SCENARIOS
    missing = _missing(observed, sources, without_network, command, sizes)
    return LinkEvidence(observed, priors, sources, rule, missing)


def documented_rule(controller: str, mpi_version: str) -> Rule | None:
    """The rule of the library behind a controller; None for MPI libraries other than Open MPI.

    Args:
        controller: ``gloo`` or ``mpi``.
        mpi_version: As the manifest has it, ``openmpi 4.1.8``.
    """
    if controller == "gloo":
        return GLOO
    name, _, version = mpi_version.partition(" ")
    if controller != "mpi" or name != "openmpi":
        return None
    major, _, rest = version.partition(".")
    numbers = major, rest.partition(".")[0]
    if not all(number.isdecimal() for number in numbers):
        return None
    return OPEN_MPI_41 if tuple(map(int, numbers)) >= (4, 1) else OPEN_MPI_40


def _tcp_priors(links: pd.DataFrame) -> dict[str, Prior]:
    """The network over TCP: the slowest pair, because a ring is as fast as its slowest link."""
    pairs = links[(links["method"] == "tcp").to_numpy() & (links["beta_ns_per_mb"] > 0).to_numpy()]
    if pairs.empty:
        return {}
    beta = float(pairs["beta_ns_per_mb"].max()) / 1e6
    latency = float(pairs["latency_ns"].median())
    found = {"inter_beta": Prior(beta, _TCP_BANDWIDTH_ERROR)}
    return found | ({"inter_alpha": Prior(latency, _TCP_LATENCY_ERROR)} if latency > 0 else {})


def _measured_levels(observed: Observations) -> list[str]:
    levels = {
        "intra": observed.ranks_per_host > 1,
        "inter": observed.num_ranks > observed.ranks_per_host,
    }
    return [level for level, is_used in levels.items() if is_used.any()]


def _missing(
    observed: Observations,
    sources: Mapping[str, str],
    without_network: str,
    command: MeasureCommand,
    sizes: Sequence[int],
) -> tuple[Missing, ...]:
    """What would narrow the cost of collectives, the widest gap first."""
    found = []
    if "inter" not in sources:
        found.append(
            Missing(
                "The run holds nothing on the network between hosts: all of its ranks were on one.",
                without_network,
                command.net(),
            )
        )
    if not len(observed):
        what, how = "No allreduce was traced.", command.at(sizes)
        if command.is_traced:
            what, how = "No single allreduce is timed in the traced launches.", ""
        return (*found, Missing(what, "latency and bandwidth are assumptions", how))
    if observed.size_bytes.max() < LEAST_SPAN * observed.size_bytes.min():
        found.append(
            Missing(
                "All allreduces have nearly the same payload, which does not separate latency "
                "from bandwidth.",
                "general assumptions separate them",
                command.net(),
            )
        )
    if len(np.unique(observed.num_ranks)) == 1:
        measured = int(observed.num_ranks[0])
        found.append(
            Missing(
                f"Allreduces were measured at {measured} ranks alone, which does not "
                "show how their latency grows with the number of ranks.",
                "the algorithm that the library documents decides",
                command.at([measured, 2 * measured]),
            )
        )
    return tuple(found)
