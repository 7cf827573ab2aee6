"""What was seen of the input of ranks: stages, queues, workers, and the cores that are left.

Tested in ``tests/analyze/findings/test_input_evidence.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.analyze.ranks.queues import late_batches
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.model.tables.line_tables import IDLE_LEAVES, LEAST_SAMPLES, LINE_SAMPLES
from hvdprof.model.tables.sample_tables import HOST_SAMPLES, RANK_MACHINE
from hvdprof.rundir.recording import sample_format as names
from hvdprof.rundir.recording.line_format import MAIN_PROCESS, WAIT, WORKER_PROCESS


@dataclass(frozen=True, slots=True)
class InputFacts:
    """What was seen of some ranks; means over them, and NaN for what is unknown.

    Attributes:
        number: Workers of a rank.
        busy: Share of the samples of workers in which they did not wait for work.
        samples: Samples of workers.
        worker_stages: Of their busy samples.
        main_stages: Of the samples of the data phase.
        idle_cores: Cores of the host that nothing used, of ``cores``; NaN on several hosts.
        num_ranks: Ranks of the cell.
        measures: Means by measure, as docs/howto/machine.md lists them.
    """

    number: float
    busy: float
    samples: int
    worker_stages: Mapping[str, float]
    main_stages: Mapping[str, float]
    idle_cores: float
    cores: int
    num_ranks: int
    measures: Mapping[str, float]

    def measure(self, name: str) -> float:
        """A mean; NaN where it was not sampled."""
        return self.measures.get(name, NAN)

    @property
    def is_ready(self) -> bool:
        """Whether most of the time in ``next`` is spent where a batch of a worker was ready."""
        late = self.measure(names.EMPTY_WAIT) + self.measure(names.FIRST_WAIT)
        return late < self.measure(names.DATA_WAIT) / 2

    @property
    def starts_late(self) -> bool:
        """Whether most of the time in ``next`` is spent on the first batches of epochs."""
        wait = self.measure(names.DATA_WAIT)
        return wait > 0 and self.measure(names.FIRST_WAIT) >= wait / 2

    @property
    def rest(self) -> float:
        """The share of the time in which a rank does not fetch a batch; NaN where unknown."""
        left = 1 - self.measure(names.DATA_WAIT)
        return left if left > 0 else NAN

    @property
    def wanted(self) -> float:
        """The workers that would make a batch in each step without waits; NaN where unknown."""
        work = self.number * self.busy if self.number else self.measure(names.DATA_WAIT)
        return work / self.rest

    @property
    def awake(self) -> float:
        """Share of the time of loading on a core or waiting for one; at most, without workers."""
        if self.number:
            # Workers that end with each epoch are not seen twice, and none of their time is.
            awake = self.measure(names.WORKERS_AWAKE) or NAN
            return awake / (self.number * self.busy or NAN)
        ready, wait = 1 - self.measure(names.CORE_WAIT), self.measure(names.DATA_WAIT)
        return self.measure(names.MAIN_THREAD) / ready / wait if ready > 0 < wait else NAN


def input_facts(evidence: Evidence, cell: Cell, ranks: Sequence[int] = ()) -> InputFacts:
    """What was seen of the input of a cell.

    Args:
        evidence: The run.
        cell: A row of SCALING.
        ranks: The ranks; all by default.
    """
    rows = evidence.rows_of(evidence.table(RANK_MACHINE.name), cell)
    samples = evidence.rows_of(evidence.table(LINE_SAMPLES.name), cell)
    if ranks:
        rows, samples = (table[table["rank"].isin(list(ranks))] for table in (rows, samples))
    by_measure = rows.groupby(rows["measure"].astype(str))["mean"].mean()
    hosts = evidence.table(HOST_SAMPLES.name)
    hosts = hosts[hosts["pass_id"].astype(str).isin(set(evidence.launches_of(cell)["pass_id"]))]
    by_measure = pd.concat([by_measure, hosts.groupby(hosts["measure"].astype(str))["mean"].mean()])
    measures = {str(name): float(mean) for name, mean in by_measure.items()}
    setting = cell_setting(evidence.run, cell)
    is_known = names.BUSY in measures and setting.num_hosts == 1 and setting.num_cores
    workers = _stages(samples, WORKER_PROCESS)
    total = sum(workers.values())
    # Workers of other loaders, and other processes, count among those that were started.
    number = measures.get(names.LOADER_WORKERS, measures.get(names.WORKERS, NAN))
    return InputFacts(
        number=float(round(number)) if number == number else NAN,
        busy=1 - workers.get(WAIT, 0) / total if total >= LEAST_SAMPLES else NAN,
        samples=total,
        worker_stages=_shares({name: n for name, n in workers.items() if name != WAIT}),
        main_stages=_shares(_stages(samples[samples["phase"] == "data"], MAIN_PROCESS)),
        idle_cores=max(setting.num_cores - measures[names.BUSY], 0.0) if is_known else NAN,
        cores=setting.num_cores or 0,
        num_ranks=max(int(cell["np"]), 1),
        measures=measures,
    )


def ranks_without_batches(evidence: Evidence, cell: Cell) -> tuple[int, ...]:
    """The ranks that wait for batches, where others have batches ready; else none."""
    rows = evidence.rows_of(evidence.table(RANK_MACHINE.name), cell)
    late = late_batches(rows, ["rank"])["late"]
    return () if late.all() else tuple(int(rank) for rank in late.index[late])


def _stages(samples: pd.DataFrame, process: str) -> dict[str, int]:
    """Samples of a process by stage; ``wait`` by the innermost function in older files."""
    if samples.empty:
        return {}
    own = samples[(samples["process"].astype(str) == process).to_numpy()]
    leaves = own["leaf"].astype(str)
    stages = own["stage"].astype(str)
    if not (stages != "").any():
        is_idle = pd.Series(False, index=own.index)
        for part in IDLE_LEAVES:
            is_idle |= leaves.str.contains(part, regex=False)
        stages = stages.mask(is_idle, WAIT)
    return {str(name): int(n) for name, n in own.groupby(stages)["samples"].sum().items()}


def _shares(counts: Mapping[str, int]) -> Mapping[str, float]:
    total = sum(counts.values())
    if total < LEAST_SAMPLES:
        return {}
    return {name: number / total for name, number in counts.items() if name and number}
