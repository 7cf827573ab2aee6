"""The figures of an analysis that every front end shows: two lists, one function per figure."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from hvdprof.errors import UsageError
from hvdprof.figures.communication_figures import overlap_per_step
from hvdprof.figures.forecast_figure import forecast_curve
from hvdprof.figures.host_links import net_bandwidths
from hvdprof.figures.launch import opening_launch, rows_of_cell, rows_of_launch
from hvdprof.figures.palette import empty_figure, say
from hvdprof.figures.scaling_curve import scaling_curve
from hvdprof.figures.step_times import parts_by_rank, step_time_distribution
from hvdprof.figures.time_differences import losses_figure
from hvdprof.figures.toggle_effects import toggle_speedups
from hvdprof.figures.transfer_sizes import transfer_by_size
from hvdprof.figures.waits import lateness_map, wait_by_rank
from hvdprof.figures.waterfall_figure import waterfall_figure
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import Table
from hvdprof.model.tables.collective_tables import BREAKDOWN, COLLECTIVES, LINK_FIT, OVERLAP
from hvdprof.model.tables.nccl_call_tables import NCCL_CHOICES
from hvdprof.model.tables.sample_tables import NET_LINKS
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT, LATENESS
from hvdprof.model.tables.waterfall_tables import TOGGLES


@dataclass(frozen=True, slots=True)
class FigureKind:
    """A figure: its name on the command line, its heading, and how to read it.

    ``needs`` names the table of the analysis that the figure requires; empty where the figure
    itself states what a missing table means. ``of_forecast`` figures require a stored forecast.
    """

    name: str
    title: str
    about: str
    draw: Callable[[RunAnalysis], go.Figure]
    needs: str = ""
    of_forecast: bool = False

    def has_data(self, analysis: RunAnalysis) -> bool:
        """Whether it draws more than a sentence for this analysis."""
        if self.of_forecast and not analysis.run.forecasts:
            return False
        return not self.needs or len(analysis.table(self.needs)) > 0


def _of_verdict(analysis: RunAnalysis, table: str) -> tuple[str, str] | None:
    verdict = analysis.verdict
    rows = analysis.table(table)
    return opening_launch(analysis.run.segments, rows, verdict.model, verdict.np)


def _of_launch(
    table: Table, draw: Callable[[pd.DataFrame], go.Figure]
) -> Callable[[RunAnalysis], go.Figure]:
    """The figure of the rows of a table of one launch of the verdict's cell."""

    def drawn(analysis: RunAnalysis) -> go.Figure:
        launch = _of_verdict(analysis, table.name)
        return draw(rows_of_launch(analysis.table(table.name), launch))

    return drawn


def _step_times(analysis: RunAnalysis) -> go.Figure:
    launch = _of_verdict(analysis, JOB_STEPS.name)
    if launch is None:
        return step_time_distribution(JOB_STEPS.empty())
    of_cell = rows_of_cell(analysis.run.segments, analysis.job_steps, launch)
    return step_time_distribution(of_cell)


def _latest_forecast(analysis: RunAnalysis) -> go.Figure:
    stored = analysis.run.forecasts
    if not stored:
        return say(empty_figure(), "No forecast is stored beside this run.")
    return forecast_curve(stored[-1].forecast, analysis.scaling)


def _transfer_by_size(analysis: RunAnalysis) -> go.Figure:
    recording = analysis.run
    return transfer_by_size(
        analysis.table(COLLECTIVES.name),
        recording.segments,
        analysis.table(LINK_FIT.name),
        recording.table(NCCL_CHOICES.name),
    )


FIGURES: tuple[FigureKind, ...] = (
    FigureKind(
        "scaling",
        "Scaling efficiency",
        "Throughput per rank against the baseline, with its 95 % interval. Hollow points are "
        "oversubscribed and excluded from scaling statements.",
        lambda analysis: scaling_curve(analysis.scaling),
    ),
    FigureKind(
        "waterfall",
        "Why a step takes longer",
        "Step time from the baseline (top) to the measured cell (bottom), by cause; without a "
        "baseline, from the compute of the normal ranks. The bars sum to the difference, points "
        "are shares of the step, lines are 95 % intervals over launches.",
        waterfall_figure,
    ),
    FigureKind(
        "losses",
        "Parts of the lost time",
        "Additional step time against the baseline, by part of the step. The parts of a bar sum to "
        "100 % minus the scaling efficiency of the cell. Blocked is the wait for other ranks and "
        "for communication: the delay of one rank is blocked time of the others.",
        lambda analysis: losses_figure(analysis.losses, analysis.scaling),
    ),
)
"""The figures at the top of every front end."""

DETAIL_FIGURES: tuple[FigureKind, ...] = (
    FigureKind(
        "parts",
        "The mean step of each rank",
        "Steady steps of one launch of the verdict's cell. Blocked is the time that the rank waits "
        "for reduced gradients: for stragglers, and for the transfer.",
        _of_launch(BREAKDOWN, parts_by_rank),
        BREAKDOWN.name,
    ),
    FigureKind(
        "lateness",
        "Lateness of each rank, step by step",
        "Time from release to arrival minus the median of the other ranks, in one launch of the "
        "verdict's cell. Orange is late, blue is early.",
        _of_launch(LATENESS, lateness_map),
        LATENESS.name,
    ),
    FigureKind(
        "waiting",
        "Wait and caused wait",
        "Steady steps of the same launch. Caused wait (Shapley): each gap between two arrivals is "
        "split among the ranks still missing. As last rank: the gap before the last arrival.",
        _of_launch(CAUSED_WAIT, wait_by_rank),
        CAUSED_WAIT.name,
    ),
    FigureKind(
        "transfer",
        "Transfer time against size",
        "Median over the executions of each payload in the trace passes, with bars from the 5th to "
        "the 95th percentile. The dashed line is latency plus bytes divided by bandwidth.",
        _transfer_by_size,
        COLLECTIVES.name,
    ),
    FigureKind(
        "overlap",
        "Overlap of communication and computation",
        "Communication time in each step of a traced launch, split by the state of the rank; mean "
        "over ranks.",
        _of_launch(OVERLAP, overlap_per_step),
        OVERLAP.name,
    ),
    FigureKind(
        "network",
        "Bandwidth between the hosts",
        "Measured before the run with one rank per host: slope of time over size, with its 95 % "
        "interval. Hollow points have no upper end: time hardly grows with size.",
        lambda analysis: net_bandwidths(analysis.table(NET_LINKS.name)),
        NET_LINKS.name,
    ),
    FigureKind(
        "step-times",
        "Step time distribution",
        "Steady steps of all launches of the verdict's cell. Launches that differ show why one "
        "launch is not enough.",
        _step_times,
        JOB_STEPS.name,
    ),
    FigureKind(
        "toggles",
        "Speedup of fp16, Adasum and DDP",
        "Throughput divided by that of the same cell without the toggle, paired by repeat. The "
        "dashed line marks no change.",
        lambda analysis: toggle_speedups(analysis.table(TOGGLES.name)),
        TOGGLES.name,
    ),
    FigureKind(
        "forecast",
        "Predicted scaling efficiency",
        "The latest forecast of `hvdprof predict`: medians with 50 and 90 % bands, measured points "
        "with their 95 % interval. The colour of a marker is that of the dominating cause, the "
        "dashed line the target, the dotted one the knee.",
        _latest_forecast,
        of_forecast=True,
    ),
)
"""Further figures: the report shows those with data, the dashboard pages all."""


def figure_kind(name: str) -> FigureKind:
    """The figure of that name.

    Raises:
        UsageError: No figure has that name.
    """
    kinds = (*FIGURES, *DETAIL_FIGURES)
    for kind in kinds:
        if kind.name == name:
            return kind
    raise UsageError(
        f"No figure is named {name!r}.", hint=f"Figures: {', '.join(kind.name for kind in kinds)}."
    )
