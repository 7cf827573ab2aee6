"""What findings on one cell have in common: its rows, its costly causes, its name and its cost."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice
from hvdprof.analyze.findings.evidence import Cell, Evidence, is_base
from hvdprof.analyze.findings.finding import SMALLEST_COST, WARNING_COST
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.model.arrays import FrameRow
from hvdprof.model.causes import (
    BASELINE_CREDIT,
    INPUT_BOUND,
    OUTSIDE_PHASES,
    PAUSE,
    RESIDUAL_TERM,
    STRAGGLER,
)
from hvdprof.model.cell_key import place_name, short_name
from hvdprof.model.run import Run
from hvdprof.model.tables.scaling_tables import SCALING
from hvdprof.rundir.attached import has_traces

CROWDED_CELL = "The ranks share cores or GPUs (oversubscribed), which delays ranks, too."
"""The caveat of a finding on a cell with more ranks than cores."""

NO_DATA_PHASE = (
    "Data loading counts as time between steps here: this loop's data source is not a DataLoader."
)
"""The caveat of a finding on time between steps, where batches come from a generator or a call."""

_IN_BASELINE = (
    "This cell is the baseline: unless more ranks stall as often, their scaling efficiency is too "
    "high."
)

# The name is one that the reader of traces takes for the data phase.
_ANNOTATE_DATA = advice(
    'write `with torch.profiler.record_function("## data_load ##"):` around data loading, to see '
    "whether it is that",
    command='with torch.profiler.record_function("## data_load ##"):',
)
_MARK_DATA = advice(
    'write `with collect.phase("data"):` around data loading after `from hvdprof import collect`, '
    "to see whether it is that",
    command='with collect.phase("data"):',
)


def crowding(run: Run, cell: Cell) -> str:
    """The caveat of a cell whose ranks compete for cores or GPUs; empty where they do not.

    More ranks than cores do no harm where these mostly sleep or wait.
    """
    setting = cell_setting(run, cell)
    if setting.gpu_crowd:
        return f"{setting.gpu_crowd.text}, which delays ranks, too."
    return CROWDED_CELL if cell["oversubscribed"] and not setting.ranks_mostly_wait else ""


def raises_efficiency(evidence: Evidence, cell: Cell) -> str:
    """What pauses of a baseline do to the efficiency of more ranks; empty for other cells."""
    rows = evidence.table(SCALING.name)
    own = rows[(rows["model"].astype(str) == cell["model"]) & (rows["np"] > cell["np"])]
    is_baseline = f"{cell['engine']} np={cell['np']}" in set(own["baseline"].astype(str))
    return _IN_BASELINE if is_baseline else ""


def mark_data(run: Run) -> Advice:
    """How the next recording shows whether time between steps is data loading."""
    return _ANNOTATE_DATA if has_traces(run.manifest) else _MARK_DATA


class CellCost(TypedDict):
    """The fields of a finding that say of which cell it is, and what it costs there."""

    model: str
    np: int
    engine: str
    cost_ns: float
    cost_low_ns: float
    cost_high_ns: float
    cost_share: float
    gain_share: float
    cause_id: str


@dataclass(frozen=True, slots=True)
class CostlyCause:
    """A row of WATERFALL that costs a cell at least 5 % of its step.

    Attributes:
        cell: The row of SCALING.
        row: The row of WATERFALL.
    """

    cell: Cell
    row: FrameRow

    @property
    def share(self) -> float:
        """The cost divided by the step time."""
        return float(self.row["share"])

    @property
    def share_text(self) -> str:
        """``share`` as text with its 95 % interval."""
        share, low, high = (float(self.row[f"share{end}"]) for end in ("", "_low", "_high"))
        return units.interval_of_unit(share, low, high, "ratio")

    @property
    def baseline_share(self) -> float:
        """What the baseline spends there as well, a share of the step; 0 without a baseline."""
        return float(self.row["baseline_share"]) if self.has_baseline else 0.0

    @property
    def whole_share(self) -> float:
        """The cost with what the baseline spends there as well."""
        return self.share + self.baseline_share

    @property
    def has_baseline(self) -> bool:
        """Whether ``share`` is without what the baseline spends."""
        return not math.isnan(float(self.row["baseline_share"]))

    @property
    def cost_ns(self) -> float:
        """The cost per step."""
        return float(self.row["time_ns"])

    @property
    def cause_id(self) -> str:
        """What identifies the row in the cell."""
        return str(self.row["cause_id"])

    @property
    def cost(self) -> CellCost:
        """The fields of a finding, with what the cause alone would save as potential gain."""
        gain = float(self.row["saved_if_removed_share"]) + self.baseline_share
        ends = float(self.row["time_low_ns"]), float(self.row["time_high_ns"])
        return cost_of(self.cell, self.share, self.cost_ns, gain, ends, self.cause_id)

    @property
    def whole_cost(self) -> CellCost:
        """The same for a finding on what the baseline spends as well."""
        whole_ns = self.cost_ns + float(self.row["baseline_ns"])
        return cost_of(
            self.cell, self.whole_share, whole_ns, self.whole_share, cause_id=self.cause_id
        )


def is_costly(row: FrameRow) -> bool:
    """Whether a row of WATERFALL costs enough, beyond its uncertainty, to be named as a loss.

    Each launch that names a straggler or pause has tested that it is significant; the interval of
    other terms must not reach 0. One launch gives no interval: the term counts, and a warning says
    so.
    """
    if row["term"] in (BASELINE_CREDIT, RESIDUAL_TERM) or not row["share"] >= SMALLEST_COST:
        return False
    return row["term"] in (STRAGGLER, PAUSE) or not row["share_low"] <= 0


def costly_causes(
    evidence: Evidence, *terms: str, oversubscribed: bool = False
) -> Iterator[CostlyCause]:
    """Rows of WATERFALL that cost cells without toggles enough.

    Args:
        evidence: The run.
        terms: Terms of WATERFALL.
        oversubscribed: Whether cells with more ranks than cores count, too.
    """
    for cell in evidence.cells(oversubscribed=oversubscribed):
        if is_base(cell):
            for row in evidence.causes_of(cell):
                if row["term"] in terms and is_costly(row) and _has_advice(row):
                    yield CostlyCause(cell, row)


def _has_advice(row: FrameRow) -> bool:
    """Whether rules know what to do about it: not about what the engine costs one rank."""
    return row["np"] > 1 or row["term"] in (PAUSE, INPUT_BOUND, OUTSIDE_PHASES)


def costs_of_baseline(
    evidence: Evidence, term: str, *, oversubscribed: bool = False
) -> Iterator[CostlyCause]:
    """Rows of WATERFALL on a tenth of the step or more, most of which the baseline has as well.

    It is no loss of scaling, so the row itself is small. One cell of each model is enough, and none
    where the baseline has a row of its own: ``costly_causes`` yields that.

    Args:
        evidence: The run.
        term: The term of WATERFALL.
        oversubscribed: Whether cells with more ranks than cores count, too.
    """
    seen: set[str] = set()
    for cell in evidence.cells(oversubscribed=oversubscribed):
        if not is_base(cell) or cell["model"] in seen:
            continue
        for row in evidence.causes_of(cell):
            if row["term"] != term:
                continue
            cause = CostlyCause(cell, row)
            if is_costly(row) and _has_advice(row):
                seen.update([] if cause.has_baseline else [str(cell["model"])])
            elif cause.has_baseline and cause.whole_share >= WARNING_COST:
                seen.add(str(cell["model"]))
                yield cause


def has_data_phase(evidence: Evidence, cell: Cell) -> bool:
    """Whether the steps of a cell have a data phase; true where they have no phases at all."""
    rows = [row for row in evidence.causes_of(cell) if row["term"] == INPUT_BOUND]
    of_baseline = (float(row["baseline_ns"]) for row in rows)
    data_ns = [float(row["time_ns"]) for row in rows]
    data_ns += [time_ns for time_ns in of_baseline if not math.isnan(time_ns)]
    # What a cell and its baseline spend on nothing may differ by rounding.
    return not rows or sum(data_ns) >= 1.0


def cost_of(
    cell: Cell,
    share: float = NAN,
    cost_ns: float = NAN,
    gain: float = NAN,
    ends_ns: tuple[float, float] = (NAN, NAN),
    cause_id: str = "",
) -> CellCost:
    """The fields of a finding that say of which cell it is, and what it costs there."""
    return {
        "model": str(cell["model"]),
        "np": int(cell["np"]),
        "engine": str(cell["engine"]),
        "cost_ns": cost_ns,
        "cost_low_ns": ends_ns[0],
        "cost_high_ns": ends_ns[1],
        "cost_share": share,
        "gain_share": gain,
        "cause_id": cause_id,
    }


def step_ns(cell: Cell) -> float:
    """The median step of the cell, ns."""
    return float(cell["step_time_median_ns"])


def cell_name(cell: Cell) -> str:
    """The cell as the subject of a finding."""
    return short_name(cell["model"], cell["np"], cell["engine"])


def cell_place(cell: Cell) -> str:
    """The cell at the begin of a sentence."""
    return place_name(cell["model"], cell["np"], cell["engine"])
