"""Results in Python: printed, in a notebook, as numbers, figures, a file, against limits."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.model.arrays import FrameRow
from hvdprof.model.causes import (
    COMPUTE_INFLATION,
    EXPOSED_TRANSFER,
    INPUT_BOUND,
    JITTER,
    OUTSIDE_PHASES,
    STRAGGLER,
)
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.screen.tiles import verdict_cell

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from hvdprof.model.limits import LimitResult as LimitResult
    from hvdprof.model.standalone_files import FilesAnalysis

Value = str | int | float | bool | None

_SHARES = {
    "jitter_share": JITTER,
    "exposed_transfer_share": EXPOSED_TRANSFER,
    "input_share": INPUT_BOUND,
    "outside_share": OUTSIDE_PHASES,
    "compute_slowdown_share": COMPUTE_INFLATION,
}


class Analysis(RunAnalysis):
    """The finished analysis of a run: its tables, and its answer as text, numbers and figures.

    ``print(analysis)`` is the verdict; the last line of a notebook cell shows the first screen.
    """

    __slots__ = ()

    @classmethod
    def of(cls, analysis: RunAnalysis) -> "Analysis":
        """The same analysis."""
        fields = dataclasses.fields(analysis)
        return cls(**{field.name: getattr(analysis, field.name) for field in fields})

    def __str__(self) -> str:
        """The verdict and its caveat, a line each."""
        caveat = f"Caveat: {self.verdict.caveat}" if self.verdict.caveat else ""
        return "\n".join(filter(None, (self.verdict.sentence, caveat)))

    def __repr__(self) -> str:
        """The run and its verdict; the tables themselves fill screens."""
        return f"<Analysis of {self.run.shown_name}: {self.verdict.headline}>"

    def _repr_html_(self) -> str:
        """The first screen for a notebook: verdict, the five numbers, and the waterfall."""
        from hvdprof.report.document.html_report import analysis_html

        return analysis_html(self)

    def figure(self, name: str) -> "go.Figure":
        """A figure of the report.

        >>> analyze_run("runs/example").figure("waterfall").layout.xaxis.title.text
        'step time, ms'

        Args:
            name: ``scaling``, ``waterfall``, ``losses``, ``parts``, ``lateness``, ``waiting``,
                ``transfer``, ``overlap``, ``network``, ``step-times``, ``toggles`` or ``forecast``.

        Raises:
            UsageError: No figure has that name.
        """
        from hvdprof.figures.catalogue import figure_kind

        return figure_kind(name).draw(self)

    def summary(self) -> dict[str, Value]:
        """The answer as one flat dictionary, for a log of experiments.

        The keys stay, also from version to version: those of docs/howto/python.md. Numbers are of
        the cell that the verdict is about: times in ms, shares of its mean step from 0 to 1;
        ``None`` where the run does not show them.

        >>> summary = analyze_run("runs/example").summary()
        >>> summary["ranks"], summary["straggler_ranks"], summary["straggler_phase"]
        (2, '1', 'data')
        """
        verdict, row = self.verdict, verdict_cell(self)
        cost = verdict.loss_cost
        causes = [] if row is None else _causes_of(self, row)
        shares = {cause["term"]: float(cause["share"]) for cause in causes}
        worst = max(
            (cause for cause in causes if cause["term"] == STRAGGLER),
            key=lambda cause: float(cause["time_ns"]),
            default=None,
        )
        first = self.findings.iloc[0] if len(self.findings) else None
        found: dict[str, Value] = {
            "run": self.run.shown_name,
            "verdict": verdict.sentence,
            "headline": verdict.headline,
            "caveat": verdict.caveat,
            "model": verdict.model,
            "ranks": verdict.np or None,
            "engine": verdict.engine,
            "efficiency": _number(verdict.efficiency),
            "efficiency_low": _number(verdict.efficiency_low),
            "efficiency_high": _number(verdict.efficiency_high),
            "largest_loss": verdict.biggest_loss or None,
            "largest_loss_share": _number(verdict.biggest_loss_share),
            "loss_cost_per_hour": None if cost is None else cost.loss_per_hour,
            "straggler_ranks": None if worst is None else str(worst["ranks"]),
            "straggler_phase": None if worst is None else str(worst["phase"]),
            "straggler_pattern": None if worst is None else str(worst["pattern"]),
            "straggler_cost_ms": None if worst is None else float(worst["time_ns"]) / 1e6,
            "straggler_cost_share": None if worst is None else float(worst["share"]),
            **{name: _number(shares.get(term, math.nan)) for name, term in _SHARES.items()},
            "num_findings": len(self.findings),
            "first_finding": None if first is None else str(first["title"]),
            "fix": None if first is None else str(first["action"]) or None,
            "num_failed": len(self.failed),
        }
        return found | _of_cell(row)


def _causes_of(analysis: RunAnalysis, row: FrameRow) -> list[FrameRow]:
    waterfall = {WATERFALL.name: analysis.table(WATERFALL.name)}
    return Evidence(analysis.run, waterfall).causes_of({str(name): row[name] for name in row})


def _of_cell(row: FrameRow | None) -> dict[str, Value]:
    def of(name: str, scale: float = 1.0) -> float | None:
        return None if row is None else _number(float(row[name]) * scale)

    return {
        "samples_per_s": of("samples_per_s"),
        "samples_per_s_low": of("samples_per_s_low"),
        "samples_per_s_high": of("samples_per_s_high"),
        "step_time_median_ms": of("step_time_median_ns", 1e-6),
        "step_time_p95_ms": of("step_time_p95_ns", 1e-6),
        "blocked_share": of("blocked_share"),
        "final_loss": of("final_loss"),
        "num_launches": None if row is None else int(row["num_launches"]),
        "num_steps": None if row is None else int(row["num_steps"]),
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def limit_results(
    analysis: "RunAnalysis | FilesAnalysis", limits: Sequence[str]
) -> "tuple[LimitResult, ...]":
    """What became of limits such as ``efficiency<80%``: ``outcome`` failed, passed or undecided.

    Args:
        analysis: The run, or files, whose throughputs decide ``efficiency`` alone.
        limits: As ``hvdprof analyze --fail-on`` takes them.

    Raises:
        UsageError: One of them has another form, or the files do not show what it limits.
    """
    if not limits:
        return ()
    from hvdprof.analyze.verdict import limits as limits_of
    from hvdprof.model.standalone_files import FilesAnalysis

    if not isinstance(analysis, FilesAnalysis):
        return limits_of.limit_results(analysis, limits)
    from hvdprof.analyze.files.joint_verdict import scaling_of_run

    return limits_of.file_limit_results(scaling_of_run(analysis.run).scaling, limits)


def write_report(
    analysis: RunAnalysis, path: str | Path, *, overwrite: bool = False, format: str | None = None
) -> None:
    """Write an analysis into a file, whole or not at all.

    >>> write_report(analyze_run("runs/example"), "report.html")

    Args:
        analysis: What to write.
        path: The file; a name that ends in ``.gz`` is compressed.
        overwrite: Whether a file of that name may be replaced.
        format: Name of the format; chosen by the end of the file name where not given.

    Raises:
        UsageError: No format has that name, or such files.
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    from hvdprof.report.formats import reporter_for, write_with

    file = Path(path)
    write_with(reporter_for(format or file), analysis, file, overwrite=overwrite)
