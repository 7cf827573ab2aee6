"""The figures of an analysis that every front end shows: one function each, two lists."""

from collections.abc import Callable
from dataclasses import dataclass

import plotly.graph_objects as go

from hvdprof.errors import UsageError
from hvdprof.figures.lateness_map import lateness_map
from hvdprof.figures.launch import opening_launch, rows_of_cell, rows_of_launch
from hvdprof.figures.losses_figure import losses_figure
from hvdprof.figures.network.host_links import net_bandwidths
from hvdprof.figures.overlap_figure import overlap_per_step
from hvdprof.figures.scaling_curve import scaling_curve
from hvdprof.figures.step_parts_figure import parts_by_rank
from hvdprof.figures.step_times import step_time_distribution
from hvdprof.figures.toggle_effects import toggle_speedups
from hvdprof.figures.transfer_sizes import transfer_by_size
from hvdprof.figures.waits import wait_by_rank
from hvdprof.figures.waterfall_figure import waterfall_figure
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.collective_tables import BREAKDOWN, COLLECTIVES, LINK_FIT, OVERLAP
from hvdprof.model.tables.nccl_call_tables import NCCL_CHOICES
from hvdprof.model.tables.net_tables import NET_LINKS
from hvdprof.model.tables.run_tables import JOB_STEPS
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT, LATENESS
from hvdprof.model.tables.waterfall_tables import TOGGLES


@dataclass(frozen=True, slots=True)
class FigureKind:
    """A figure: its name on the command line, its heading, and one sentence on how to read it.

    ``needs`` names the table of the analysis without which there is nothing to draw; empty where
    the figure itself says in a sentence what that means.
    """

    name: str
    title: str
    about: str
    draw: Callable[[RunAnalysis], go.Figure]
    needs: str = ""

    def has_data(self, analysis: RunAnalysis) -> bool:
        """Whether it draws more than a sentence for this analysis."""
        return not self.needs or len(analysis.table(self.needs)) > 0


def _of_verdict(analysis: RunAnalysis, table: str) -> tuple[str, str] | None:
    verdict = analysis.verdict
    rows = analysis.table(table)
    return opening_launch(analysis.run.segments, rows, verdict.model, verdict.np)


def _wait_by_rank(analysis: RunAnalysis) -> go.Figure:
    launch = _of_verdict(analysis, CAUSED_WAIT.name)
    return wait_by_rank(rows_of_launch(analysis.table(CAUSED_WAIT.name), launch))


def _lateness_map(analysis: RunAnalysis) -> go.Figure:
    launch = _of_verdict(analysis, LATENESS.name)
    return lateness_map(rows_of_launch(analysis.table(LATENESS.name), launch))


def _parts_by_rank(analysis: RunAnalysis) -> go.Figure:
    launch = _of_verdict(analysis, BREAKDOWN.name)
    return parts_by_rank(rows_of_launch(analysis.table(BREAKDOWN.name), launch))


def _overlap_per_step(analysis: RunAnalysis) -> go.Figure:
    launch = _of_verdict(analysis, OVERLAP.name)
    return overlap_per_step(rows_of_launch(analysis.table(OVERLAP.name), launch))


def _step_times(analysis: RunAnalysis) -> go.Figure:
    launch = _of_verdict(analysis, JOB_STEPS.name)
    if launch is None:
        return step_time_distribution(JOB_STEPS.empty())
    of_cell = rows_of_cell(analysis.run.segments, analysis.job_steps, launch)
    return step_time_distribution(of_cell)


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
        "oversubscribed: measured, but they say nothing about scaling.",
        lambda analysis: scaling_curve(analysis.scaling),
    ),
    FigureKind(
        "waterfall",
        "Why a step takes longer",
        "From the step of the baseline above to that of the measured cell below, by cause; the "
        "bars sum to the difference, points are shares of the step. Lines are 95 % intervals over "
        "launches.",
        waterfall_figure,
    ),
    FigureKind(
        "losses",
        "Where the time goes",
        "What a step takes longer than in the baseline, by part; the parts of a bar sum to what "
        "its cell lacks to 100 %.",
        lambda analysis: losses_figure(analysis.losses, analysis.scaling),
    ),
)
"""What a reader sees first, in every front end."""

DETAIL_FIGURES: tuple[FigureKind, ...] = (
    FigureKind(
        "parts",
        "The mean step of each rank",
        "Steady steps of the verdict's cell, one launch. Exposed communication is the time in "
        "which the rank stood still for reduced gradients: waiting for late ranks and transfer.",
        _parts_by_rank,
        BREAKDOWN.name,
    ),
    FigureKind(
        "lateness",
        "Who is late, step by step",
        "How much longer a rank needed from release to arrival than the median of the others, in "
        "one launch of the verdict's cell. Orange is late, blue is early.",
        _lateness_map,
        LATENESS.name,
    ),
    FigureKind(
        "waiting",
        "Who waited, and for whom",
        "The same launch. Fair share: the time between two arrivals is split among the ranks that "
        "are still missing. As the last: what the last arrival would have been earlier without it.",
        _wait_by_rank,
        CAUSED_WAIT.name,
    ),
    FigureKind(
        "transfer",
        "Transfer time against size",
        "Medians over the executions of each payload in the traced passes, bars from 5 to 95 % of "
        "them; the dashed line is latency plus bytes by bandwidth.",
        _transfer_by_size,
        COLLECTIVES.name,
    ),
    FigureKind(
        "overlap",
        "Overlap of communication with work",
        "Time in which a collective was in progress in each step of a traced launch, by what the "
        "rank did meanwhile; mean over ranks.",
        _overlap_per_step,
        OVERLAP.name,
    ),
    FigureKind(
        "network",
        "Bandwidth between the hosts",
        "Measured before the run, one rank on every host: the slope of time over size, with its "
        "95 % interval. Hollow points have no upper end: time hardly grew with size.",
        lambda analysis: net_bandwidths(analysis.table(NET_LINKS.name)),
        NET_LINKS.name,
    ),
    FigureKind(
        "step-times",
        "How long steps are",
        "Steady steps of the launches of the verdict's cell; launches that lie apart are why one "
        "is not enough.",
        _step_times,
        JOB_STEPS.name,
    ),
    FigureKind(
        "toggles",
        "Do fp16 and Adasum pay?",
        "Throughput by that of the same cell without the toggle, paired by repeat; the dashed "
        "line changes nothing.",
        lambda analysis: toggle_speedups(analysis.table(TOGGLES.name)),
        TOGGLES.name,
    ),
)
"""What is looked at after that: the report shows those that have data, the pages all."""


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
        f"No figure is named {name!r}.",
        hint=f"Figures: {', '.join(kind.name for kind in kinds)}.",
    )
