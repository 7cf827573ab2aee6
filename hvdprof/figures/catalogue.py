"""The figures of an analysis that every front end shows: one function each, one list."""

from collections.abc import Callable
from dataclasses import dataclass

import plotly.graph_objects as go

from hvdprof.errors import UsageError
from hvdprof.figures.losses import losses_figure
from hvdprof.figures.scaling_curve import scaling_curve
from hvdprof.figures.waterfall import waterfall_figure
from hvdprof.model.run import RunAnalysis


@dataclass(frozen=True, slots=True)
class FigureKind:
    """A figure: its name on the command line, its heading, and one sentence on how to read it."""

    name: str
    title: str
    about: str
    draw: Callable[[RunAnalysis], go.Figure]


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
        "From the step of the baseline to that of the cell in the verdict, by cause; the bars sum "
        "to the difference. Lines are 95 % intervals over launches.",
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


def figure_kind(name: str) -> FigureKind:
    """The figure of that name.

    Raises:
        UsageError: No figure has that name.
    """
    for kind in FIGURES:
        if kind.name == name:
            return kind
    raise UsageError(
        f"No figure is named {name!r}.",
        hint=f"Figures: {', '.join(kind.name for kind in FIGURES)}.",
    )
