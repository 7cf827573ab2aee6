"""How late each rank was in each step, as a heat map."""

import numpy as np
import plotly.graph_objects as go

from hvdprof import units
from hvdprof.analyze.steps.step_work import step_work
from hvdprof.analyze.stragglers.stragglers import lateness, windows
from hvdprof.figures.launch import opening_launch, rows_of_launch
from hvdprof.figures.style.palette import LATE_SCALE, empty_figure, say
from hvdprof.figures.style.step_bins import bin_largest, bin_starts
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT

_MOST_STEPS = 2000
_MOST_RANKS = 128
_MOST_CELLS = 80_000
_COLOUR_QUANTILE = 0.99
_MOST_TICKS = 16


def lateness_map(analysis: RunAnalysis, launch: LaunchKey | None = None) -> go.Figure:
    """Ranks by steps, coloured by how much later a rank arrived than the median of the others.

    What is coloured is the quantity of ``stragglers``: time from release to arrival by the rank's
    own clock, less the median of the other ranks' in the same step. Above 2,000 steps, 128 ranks
    or 80,000 cells a cell stands for several and shows the latest of them; the axis says so.

    Args:
        analysis: The finished analysis.
        launch: The launch (pass_id, segment); that of the verdict where not given.
    """
    verdict = analysis.verdict
    launch = launch or opening_launch(
        analysis.run.segments, analysis.table(CAUSED_WAIT.name), verdict.model, verdict.np
    )
    work = step_work(
        rows_of_launch(analysis.run.steps, launch),
        rows_of_launch(analysis.run.events, launch),
        rows_of_launch(analysis.job_steps, launch),
    ).get(launch or ("", ""))
    figure = empty_figure()
    if work is None or len(work.ranks) < 2 or not work.follows.any():
        return say(figure, "No launch of two or more ranks has steps recorded by all of them.")
    late_ms = lateness(windows(work).length) / 1e6
    steps = work.steps[np.flatnonzero(work.follows)]
    rank_starts = bin_starts(len(work.ranks), _MOST_RANKS)
    most_columns = min(_MOST_STEPS, max(_MOST_CELLS // len(rank_starts), 1))
    step_starts = bin_starts(len(steps), most_columns)
    cells = bin_largest(bin_largest(late_ms, step_starts).T, rank_starts)
    limit = max(float(np.quantile(np.abs(cells), _COLOUR_QUANTILE)), 1e-3)
    figure.add_trace(
        go.Heatmap(
            z=cells.astype(np.float32),
            x=steps[step_starts].astype(np.float64),
            y=work.ranks[rank_starts].astype(np.float64),
            colorscale=list(LATE_SCALE),
            zmin=-limit,
            zmax=limit,
            colorbar={"title": {"text": "late, ms"}, "thickness": 14, "outlinewidth": 0},
            hovertemplate="rank %{y}, step %{x}: %{z:.3~g} ms<extra></extra>",
        )
    )
    figure.update_layout(height=max(260, min(160 + 26 * len(rank_starts), 620)))
    figure.update_xaxes(title_text=_title("step", len(steps), len(step_starts)), showgrid=False)
    figure.update_yaxes(
        title_text=_title("rank", len(work.ranks), len(rank_starts)),
        showgrid=False,
        autorange="reversed",
        dtick=1 if len(rank_starts) <= _MOST_TICKS else None,
    )
    return figure


def _title(what: str, number: int, shown: int) -> str:
    if number == shown:
        return what
    return f"{what} (binned: {units.count(number)} {what}s in {shown}, the latest of each)"
