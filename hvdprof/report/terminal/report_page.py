"""What the terminal report says, as plain texts: shaping apart from drawing."""

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import (
    CELL_KEY,
    ENGINE_TITLES,
    cell_label,
    has_no_toggles,
    setting_name,
    setting_of_row,
    with_engine,
    without_toggles,
)
from hvdprof.model.limits import WIDE_MARK, is_wide
from hvdprof.model.notes import Note, NoteCode, texts
from hvdprof.model.run import FailedSegment, RunAnalysis, Verdict
from hvdprof.report.terminal.run_facts import stop_text, trace_overhead_text
from hvdprof.rundir.attached import attached_files, has_phase_logs
from hvdprof.rundir.manifest import Manifest, Mode, Skipped, Status
from hvdprof.rundir.plan import TORCH_ENGINE

CELL_HEADS = (
    *("np", "setting", "samples/s", "step time, median", "p95", "scaling efficiency"),
    *("blocked, mean", "of the step", "trace overhead", "final loss"),
)
"""Headings of the columns of a table of cells, one line each."""

_MOST_LINES = 8


@dataclass(frozen=True, slots=True)
class CellRow:
    """One cell of the design as texts; empty where a column says nothing about it."""

    np: str
    setting: str
    samples_per_s: str
    step_median: str
    step_p95: str
    efficiency: str
    blocked: str
    blocked_share: str
    trace_overhead: str
    final_loss: str
    oversubscribed: bool
    is_wide: bool
    last_of_size: bool
    key: tuple[str, ...] = ()
    """The values of ``CELL_KEY``."""


@dataclass(frozen=True, slots=True)
class ModelTable:
    """All cells of one model, with what its efficiency refers to."""

    model: str
    caption: str
    rows: tuple[CellRow, ...]


@dataclass(frozen=True, slots=True)
class FailedCell:
    """Cells that failed alike: what and why, and the last lines of the first that explain it.

    A reason that the verdict says is not in the text.
    """

    text: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkippedCells:
    """Cells that share the reason for which they were not measured."""

    reason: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The texts of the report."""

    verdict: str
    caveat: str
    stop: str
    tables: tuple[ModelTable, ...]
    failed: tuple[FailedCell, ...]
    skipped: tuple[SkippedCells, ...]
    warnings: tuple[str, ...]
    where: str
    next_commands: tuple[tuple[str, str], ...]


def shape_page(analysis: RunAnalysis) -> Page:
    """The texts of the terminal report; models in the order in which they were measured."""
    scaling = analysis.scaling
    caveat, warnings = _once(analysis.verdict, analysis.warning_notes)
    models = list(dict.fromkeys(scaling["model"]))
    return Page(
        verdict=analysis.verdict.sentence,
        caveat=caveat,
        stop=stop_text(analysis.run.manifest.stop),
        tables=tuple(_model_table(scaling[scaling["model"] == model]) for model in models),
        failed=_failed_cells(analysis.failed, analysis.verdict.sentence),
        skipped=_by_reason(analysis.skipped),
        warnings=warnings,
        where=_where(analysis.run.manifest),
        next_commands=_next_commands(analysis),
    )


def _once(verdict: Verdict, warnings: tuple[Note, ...]) -> tuple[str, tuple[str, ...]]:
    """Caveat and warnings, with the load of the machine in the caveat alone where both hold it.

    What failed has a section of its own.
    """
    warnings = tuple(warning for warning in warnings if warning.code != NoteCode.FAILED)
    load = next(
        (caveat.value for caveat in verdict.caveats if caveat.code == NoteCode.OTHER_LOAD), ""
    )
    longer = next((warning for warning in warnings if warning.code == NoteCode.OTHER_LOAD), None)
    if not load or longer is None:
        return verdict.caveat, texts(warnings)
    # The warning has the number of passes, too.
    caveat = verdict.caveat.replace(load, longer.text, 1)
    return caveat, texts(warning for warning in warnings if warning.code != NoteCode.OTHER_LOAD)


def _model_table(cells: pd.DataFrame) -> ModelTable:
    order = cells.assign(place=cells["engine"].map(list(ENGINE_TITLES).index)).sort_values(
        ["np", "place"], kind="stable"
    )
    order = order.assign(is_wide=is_wide(order))
    rows = order.to_dict(orient="records")
    sizes = [row["np"] for row in rows]
    # A script has no toggles to distinguish.
    has_setting = not all(map(has_no_toggles, rows)) or not with_engine(order).all()
    return ModelTable(
        model=str(rows[0]["model"]),
        caption=_caption(cells),
        rows=tuple(
            _cell_row(row, last_of_size=size != following, has_setting=has_setting)
            for row, size, following in zip(rows, sizes, [*sizes[1:], None], strict=True)
        ),
    )


def _caption(cells: pd.DataFrame) -> str:
    if cells["samples_per_s"].isna().all():
        return "samples per step unknown, no baseline"
    return f"{_batch_sizes(cells)} samples per rank and step, {_reference(cells)}"


def _reference(cells: pd.DataFrame) -> str:
    """What the efficiencies refer to; one number of ranks, or toggles alone, have nothing."""
    names = " or ".join(dict.fromkeys(filter(None, cells["baseline"])))
    if names:
        return f"efficiency against {names}"
    return "no baseline" if without_toggles(cells).any() else "no baseline without toggles"


def _batch_sizes(cells: pd.DataFrame) -> str:
    """Of cells and ranks: a median of ranks that differ would be a batch that no rank had."""
    low, high = round(cells["batch_size_low"].min()), round(cells["batch_size_high"].max())
    return units.count(high) if low == high else f"{units.count(low)} to {units.count(high)}"


def _cell_row(row: FrameRow, *, last_of_size: bool, has_setting: bool) -> CellRow:
    plain_torch = row["engine"] == TORCH_ENGINE
    return CellRow(
        np=units.count(row["np"]),
        setting=setting_of_row(row) if has_setting else ENGINE_TITLES[str(row["engine"])],
        samples_per_s=units.rate_interval(
            row["samples_per_s"], row["samples_per_s_low"], row["samples_per_s_high"]
        ),
        step_median=units.milliseconds(row["step_time_median_ns"]),
        step_p95=units.milliseconds(row["step_time_p95_ns"]),
        efficiency=_efficiency(row),
        blocked="" if plain_torch else units.milliseconds(row["blocked_ns"]),
        blocked_share="" if plain_torch else units.percent(row["blocked_share"]),
        trace_overhead=trace_overhead_text(row),
        final_loss=units.rate(row["final_loss"]),
        oversubscribed=bool(row["oversubscribed"]),
        is_wide=bool(row["is_wide"]),
        last_of_size=last_of_size,
        key=tuple(str(row[name]) for name in CELL_KEY),
    )


def _efficiency(row: FrameRow) -> str:
    if row["oversubscribed"]:
        return "oversubscribed"
    if row["baseline"] == f"{row['engine']} np={row['np']}" and has_no_toggles(row):
        return "baseline"
    text = units.percent_interval(row["efficiency"], row["efficiency_low"], row["efficiency_high"])
    return f"{WIDE_MARK} {text}" if row["is_wide"] else text


def _failed_cells(cells: Iterable[FailedSegment], said: str) -> tuple[FailedCell, ...]:
    alike: dict[tuple[object, ...], list[FailedSegment]] = {}
    for cell in cells:
        # Whichever rank was the first to fail.
        what = cell.reason.replace(f"rank {cell.rank} ", "rank ")
        alike.setdefault((what, cell.exit_code, cell.signal, cell.host), []).append(cell)
    return tuple(_failed_cell(group, said) for group in alike.values())


def _failed_cell(group: Sequence[FailedSegment], said: str) -> FailedCell:
    first = group[0]
    of_pass: dict[str, list[str]] = {}
    for cell in group:
        label = cell_label({name: getattr(cell, name) for name in CELL_KEY})
        of_pass.setdefault(cell.pass_id, []).append(label)
    names: dict[str, list[str]] = {}
    for pass_id, labels in of_pass.items():
        names.setdefault(", ".join(dict.fromkeys(labels)), []).append(pass_id)
    which = "; ".join(f"{labels} ({', '.join(ids)})" for labels, ids in names.items())
    reason = "" if first.reason.rstrip(".") in said else f": {first.reason}"
    where = f"; rank {first.rank} ran on {first.host}" if first.host else ""
    return FailedCell(f"{which}{reason}{where}", first.lines[-_MOST_LINES:])


def _by_reason(cells: Iterable[Skipped]) -> tuple[SkippedCells, ...]:
    models: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        setting = f"np={cell.size} {setting_name(cell.engine, cell.compression, cell.reduction)}"
        models.setdefault(cell.reason, {}).setdefault(setting, []).append(cell.model)
    return tuple(
        SkippedCells(
            reason, tuple(f"{setting}: {', '.join(names)}" for setting, names in settings.items())
        )
        for reason, settings in models.items()
    )


def _where(manifest: Manifest) -> str:
    hosts = ", ".join(
        f"{host.get('hostname', '?')} ({units.count(host['num_cores'])} cores"
        + (f", {units.counted(len(host['gpus']), 'GPU')})" if host.get("gpus") else ")")
        for host in manifest.hosts
        if host.get("num_cores")
    )
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    created = manifest.created_at.replace("T", " ").removesuffix("+00:00")
    return "; ".join(
        part for part in (f"{created} UTC" if created else "", hosts, versions) if part
    )


def _next_commands(analysis: RunAnalysis) -> tuple[tuple[str, str], ...]:
    manifest = analysis.run.manifest
    if not manifest.created_at:
        if not manifest.passes or has_phase_logs(manifest):
            return ()
        # Files that lie anywhere: pages and traces are made of run directories.
        files = " ".join(
            f"--trace {shlex.quote(attached_file.given)}"
            for attached_file in attached_files(manifest)
        )
        command = f"hvdprof attach runs/{shlex.quote(manifest.passes[0].id)} {files}"
        return ((command, "for dashboard and export"),)
    folder = shlex.quote(_shortest(analysis.run.folder))
    commands = [(f"hvdprof dashboard {folder}", "open in the browser")]
    if any(
        record.mode == Mode.TRACE and record.status == Status.DONE
        for record in analysis.run.manifest.passes
    ):
        commands.append((f"hvdprof export {folder} -o trace.json", "every rank on one clock"))
    return tuple(commands)


def _shortest(folder: Path) -> str:
    try:
        relative = os.path.relpath(folder)
    except OSError:
        # A script can have removed the working directory.
        return str(folder)
    return min(relative, str(folder), key=len)
