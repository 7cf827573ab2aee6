"""The job that is tuned: what the rules on candidates ask about it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from hvdprof.analyze.findings.evidence import Cell, Evidence, is_base
from hvdprof.analyze.ranks.arrivals import NOT_READY, arrival_cubes
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.cell_setting import CellSetting, cell_setting
from hvdprof.analyze.steps.step_work import StepWork, step_work, with_all_ranks
from hvdprof.errors import UsageError
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.causes import EXPOSED_TRANSFER
from hvdprof.model.cell_key import LAUNCH, LaunchKey, of_base_cell
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.collective_tables import COLLECTIVES
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.run_tables import WAITS
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.rundir.plan import DDP_ENGINE, HOROVOD_ENGINE

GLOO, MPI = "gloo", "mpi"


@dataclass(frozen=True, slots=True)
class Means:
    """What can be changed beside the environment.

    Attributes:
        controllers: Those that Horovod was built with: gloo, mpi.
        script_text: The source of the script, for the arguments that it takes; empty where there
            is none, or where it cannot be read.
    """

    controllers: tuple[str, ...] = ()
    script_text: str = ""


@dataclass(frozen=True)
class TunedJob:
    """One cell without toggles of a run, as the present setting.

    Attributes:
        evidence: The run and its tables.
        cell: The row of SCALING.
        means: What can be changed beside the environment.
        margin: Smallest gain that matters, a share of the step time.
    """

    evidence: Evidence
    cell: Cell
    means: Means
    margin: float

    @property
    def num_ranks(self) -> int:
        """The number of ranks."""
        return int(self.cell["np"])

    @property
    def is_horovod(self) -> bool:
        """Whether Horovod reduces the gradients, of at least two ranks."""
        return self.cell["engine"] == HOROVOD_ENGINE and self.num_ranks > 1

    @property
    def is_ddp(self) -> bool:
        """Whether DDP reduces the gradients, of at least two ranks."""
        return self.cell["engine"] == DDP_ENGINE and self.num_ranks > 1

    @property
    def is_bench(self) -> bool:
        """Whether it is one of the reference models of ``hvdprof bench``."""
        return self.evidence.run.manifest.settings.get("script") is None

    @property
    def sets_threads(self) -> bool:
        """Whether hvdprof sets the number of threads, so that no variable of the user does."""
        return self.is_bench or self.options.get("num_threads") is not None

    @property
    def step_ns(self) -> float:
        """The median step, ns."""
        return float(self.cell["step_time_median_ns"])

    @cached_property
    def setting(self) -> CellSetting:
        """Placement of the ranks."""
        return cell_setting(self.evidence.run, self.cell)

    def variable(self, name: str) -> str | None:
        """A variable as the ranks of this engine had it; None where it was not set."""
        manifest = self.evidence.run.manifest
        for record in manifest.passes:
            if record.engine == self.cell["engine"] and name in record.environment:
                return record.environment[name]
        return manifest.environment.get(name)

    def number(self, name: str, default: float) -> float:
        """A variable as Horovod reads it, by ``strtod``: 0 where it is no number."""
        text = self.variable(name)
        if text is None:
            return default
        found = re.match(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text)
        return float(found[0]) if found else 0.0

    def finding(self, *ids: str) -> str:
        """The first of these rules that found something, of this cell or of the run; else empty."""
        table = self.evidence.table(FINDINGS.name)
        own = table["np"].isna() | (table["np"] == self.num_ranks)
        present = set(table.loc[own, "id"].astype(str))
        return next((rule_id for rule_id in ids if rule_id in present), "")

    @cached_property
    def exposed_share(self) -> float:
        """Exposed transfer as a share of the step, the upper end of its interval; 0 if unknown."""
        return self.cause_share(EXPOSED_TRANSFER)

    @property
    def executing_share(self) -> float:
        """The part of exposed transfer in which a collective executes; 0 if unknown."""
        share = self._waterfall.get(EXPOSED_TRANSFER, {}).get("executing_share", NAN)
        return 0.0 if is_missing(share) else float(share)

    def cause_share(self, term: str) -> float:
        """A cause of the waterfall as a share of the step, the upper end of its interval.

        0 where the waterfall does not have it.
        """
        row = self._waterfall.get(term)
        if row is None:
            return 0.0
        return float(row["share"] if is_missing(row["share_high"]) else row["share_high"])

    @cached_property
    def _waterfall(self) -> Mapping[str, FrameRow]:
        rows = self._of_cell(self.evidence.table(WATERFALL.name)).to_dict("records")
        return {str(row["term"]): row for row in rows}

    def _of_cell(self, rows: pd.DataFrame) -> pd.DataFrame:
        return of_base_cell(rows, str(self.cell["model"]), self.num_ranks, str(self.cell["engine"]))

    @cached_property
    def communication_share(self) -> float:
        """The most that settings of the communication can save, a share of the step.

        The time in which ranks are blocked. Where the ranks' own cores communicate, collectives
        also slow the computation that covers them, so that their whole time counts.
        """
        blocked = float(self.cell["blocked_share"])
        blocked = 0.0 if blocked != blocked else blocked
        if not self.shares_cores:
            return blocked
        return max(blocked, min(1.0, self._collective_share))

    @property
    def shares_cores(self) -> bool:
        """Whether collectives run on cores that also compute."""
        return not self.setting.on_gpus

    @property
    def _collective_share(self) -> float:
        steady = self.collectives
        if steady.empty:
            return 0.0
        by_step = steady.groupby(["pass_id", "segment", "step"], observed=True)["dur_ns"].sum()
        return float(by_step.median()) / self.step_ns

    @property
    def matters(self) -> bool:
        """Whether settings of the communication can save as much as matters."""
        return self.communication_share >= self.margin

    @cached_property
    def collectives(self) -> pd.DataFrame:
        """COLLECTIVES of its steady steps, with a known length."""
        table = self.evidence.table(COLLECTIVES.name)
        segments = self._segments
        own = set(segments["pass_id"].astype(str) + " " + segments["segment"].astype(str))
        names = table["pass_id"].astype(str) + " " + table["segment"].astype(str)
        steady = ~table["warmup"] & (table["step"] >= 0) & table["dur_ns"].notna()
        return table[(names.isin(own) & steady).to_numpy(dtype=bool)]

    @cached_property
    def executions_per_step(self) -> float:
        """Collectives per step, the median; 0 without a timeline."""
        if self.collectives.empty:
            return 0.0
        steps = self.collectives.groupby(["pass_id", "segment", "step"], observed=True).size()
        return float(steps.median())

    @cached_property
    def largest_bytes(self) -> float:
        """The largest payload of a collective, the median over steps; 0 if unknown."""
        known = self.collectives[self.collectives["size_bytes"].notna()]
        if known.empty:
            return 0.0
        largest = known.groupby(["pass_id", "segment", "step"], observed=True)["size_bytes"].max()
        return float(largest.astype("float64").median())

    @cached_property
    def _segments(self) -> pd.DataFrame:
        return self._of_cell(self.evidence.run.segments)

    @cached_property
    def launches(self) -> tuple[LaunchKey, ...]:
        """Its launches that measure throughput."""
        throughput = self._segments[(self._segments["mode"] == "throughput").to_numpy(dtype=bool)]
        return tuple(
            (str(pass_id), str(segment))
            for pass_id, segment in throughput[[*LAUNCH]].itertuples(index=False, name=None)
        )

    @cached_property
    def works(self) -> Mapping[LaunchKey, StepWork]:
        """The steady steps of every launch with recorder files of all ranks."""
        run = self.evidence.run
        of_job = self.evidence.table(JOB_STEPS.name)
        recorded = step_work(run.steps, run.events, of_job, run.table(WAITS.name))
        return with_all_ranks(recorded, run.segments)

    @cached_property
    def uses_all_gradients(self) -> bool | None:
        """Whether each rank had every gradient ready in each recorded step; None if unknown."""
        arrivals = self.evidence.run.arrivals
        segments = self._segments[["pass_id", "segment", "num_tensors"]].astype(
            {"pass_id": str, "segment": str}
        )
        expected = {(one, other): int(number) for one, other, number in segments.to_numpy()}
        found = None
        for cube in arrival_cubes(arrivals):
            if cube.key not in expected:
                continue
            is_whole = len(cube.tensors) >= expected[cube.key]
            if not is_whole or (cube.ready == NOT_READY).any():
                return False
            found = True
        return found

    @property
    def num_gradients(self) -> int:
        """Gradients per step; 0 if unknown."""
        return int(self._segments["num_tensors"].max()) if len(self._segments) else 0

    @property
    def sent_bytes(self) -> int:
        """Gradient bytes per rank and step; 0 if unknown."""
        return int(self.cell["sent_bytes"])

    @cached_property
    def ranks(self) -> pd.DataFrame:
        """RANKS of the first of its passes."""
        ranks = self.evidence.run.ranks
        names = set(self._segments["pass_id"].astype(str))
        own = ranks[ranks["pass_id"].astype(str).isin(names).to_numpy(dtype=bool)]
        return own[(own["pass_id"] == own["pass_id"].iloc[0]).to_numpy()] if len(own) else own

    @property
    def ranks_per_host(self) -> int:
        """The most ranks on a host."""
        hosts = self.ranks["hostname"].astype(str)
        return int(hosts.value_counts().max()) if len(hosts) else self.num_ranks

    @property
    def threads(self) -> int:
        """The most threads of a rank; 0 if unknown."""
        return max(0, int(self.ranks["num_threads"].max())) if len(self.ranks) else 0

    @property
    def options(self) -> Mapping[str, object]:
        """What the user asked for."""
        return self.evidence.run.manifest.options

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The command of the script as words; empty for reference models."""
        script = self.evidence.run.manifest.settings.get("script") or {}
        return tuple(map(str, script.get("command", ())))


def tuned_job(
    analysis: RunAnalysis, means: Means, *, margin: float, num_ranks: int | None = None
) -> TunedJob:
    """The cell without toggles that is tuned, the largest where no number of ranks is given.

    Raises:
        UsageError: The run has no such cell, or several models.
    """
    evidence = Evidence(analysis.run, analysis.tables)
    cells = [cell for cell in evidence.cells(oversubscribed=True) if is_base(cell)]
    sizes = sorted({int(cell["np"]) for cell in cells})
    wanted = num_ranks if num_ranks is not None else max(sizes, default=0)
    own = [cell for cell in cells if cell["np"] == wanted]
    if len(own) != 1:
        raise UsageError(
            f"np={wanted}: the run holds {len(own)} cells without toggles; one is tuned at a time.",
            hint="Name one model, one engine and one number of ranks.",
        )
    return TunedJob(evidence, own[0], means, margin)
