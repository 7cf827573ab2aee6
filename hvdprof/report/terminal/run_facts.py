"""Where and how a run was measured, why it stopped, how exact its clocks are, its overhead."""

from collections import Counter

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import has_no_toggles, short_name
from hvdprof.model.run import Run, RunAnalysis
from hvdprof.model.tables.waiting_tables import CLOCKS
from hvdprof.plain_text import printable
from hvdprof.rundir.attached import attached_files
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.stopping import Stop, StopReason

_REPEATS_TO_PREDICT = 2
"""One launch of each cell does not show how much launches differ."""

_LONGEST_S = 86_400.0
"""Half an interval falls with the square root of the time: no such estimate is a plan."""


def run_facts(analysis: RunAnalysis) -> list[tuple[str, str]]:
    """Label and text of each fact that is known, for a table of two columns."""
    manifest = analysis.run.manifest
    facts = [
        ("started", run_created(manifest)),
        ("hosts", _hosts(manifest)),
        ("versions", ", ".join(f"{name} {one}" for name, one in manifest.versions.items())),
        ("measured", _measured(manifest)),
        ("settings", _settings(manifest)),
        ("launches", _launches(manifest)),
        ("clocks", _clocks(analysis.table(CLOCKS.name))),
        ("trace overhead", _trace_overheads(analysis.scaling)),
    ]
    return [(label, text) for label, text in facts if text]


def trace_overhead_text(row: FrameRow) -> str:
    """Trace overhead of a row of SCALING; no number where all of its interval is negative."""
    if row["trace_overhead_high"] < 0:
        return "not measurable"
    return units.percent_interval(
        row["trace_overhead"], row["trace_overhead_low"], row["trace_overhead_high"]
    )


def run_label(run: Run) -> str:
    """The folder of a run, which holds its date, after the name where the folder has another."""
    folder, name = printable(run.folder.resolve().name), run.manifest.name
    return folder if name in folder else f"{name} ({folder})"


def run_created(manifest: Manifest) -> str:
    """When the run was started, ``2026-11-20 22:48:41 UTC``; empty where unknown."""
    created = manifest.created_at.replace("T", " ").removesuffix("+00:00")
    return f"{created} UTC" if created else ""


def _hosts(manifest: Manifest) -> str:
    texts = []
    for host in manifest.hosts:
        parts = [str(host.get("cpu_model") or "")]
        if host.get("num_cores"):
            parts.append(f"{units.count(host['num_cores'])} cores")
        if host.get("gpus"):
            parts.append(units.counted(len(host["gpus"]), "GPU"))
        texts.append(f"{host.get('hostname', '?')} ({', '.join(part for part in parts if part)})")
    return "; ".join(texts)


def _measured(manifest: Manifest) -> str:
    if attached_files(manifest):
        return ""
    number = Counter((record.mode, record.controller) for record in manifest.passes)
    return "; ".join(
        f"{units.count(count)} {'pass' if count == 1 else 'passes'} in {mode} mode under {by}"
        for (mode, by), count in number.items()
    )


def _settings(manifest: Manifest) -> str:
    settings = manifest.settings
    texts = []
    # A script chooses the batches of each rank.
    if scaling := manifest.options.get("scaling") or (settings.get("script") and "weak"):
        texts.append(f"{scaling} scaling")
    if settings.get("num_threads"):
        threads = int(settings["num_threads"])
        texts.append(
            "1 thread per rank" if threads == 1 else f"{units.count(threads)} threads per rank"
        )
    if settings.get("device"):
        texts.append(f"on {settings['device']}")
    if manifest.passes and not attached_files(manifest):
        pinned = sum(record.pinned for record in manifest.passes)
        texts.append(
            "pinned to cores"
            if pinned == len(manifest.passes)
            else f"{units.count(pinned)} of {units.count(len(manifest.passes))} passes pinned"
        )
    return ", ".join(texts)


def _launches(manifest: Manifest) -> str:
    """Whether launches took turns, and why not; empty where nothing was to be interleaved."""
    if reason := manifest.settings.get("no_turns"):
        return f"one after the other: {reason}"
    return "took turns" if manifest.settings.get("turn_s") else ""


def _clocks(clocks: pd.DataFrame) -> str:
    if clocks.empty:
        return ""
    largest = float(clocks["u_ns"].max())
    if largest == 0:
        return "all ranks read the same clock"
    agree = units.milliseconds(largest)
    return f"ranks agree to {agree}, and delays below twice that are not attributed"


def _trace_overheads(scaling: pd.DataFrame) -> str:
    known = scaling[scaling["trace_overhead"].notna().to_numpy()]
    return "; ".join(
        f"{short_name(row['model'], row['np'], row['engine'])}: " + trace_overhead_text(row)
        for row in known.to_dict("records")
        if has_no_toggles(row)
    )


def stop_text(stop: Stop | None) -> str:
    """``Stopped after 3 of at most 6 repeats: ±2.4 % reached (3 % asked).``, empty without a stop.

    Where the precision was not reached: ``Stopped at 5 min, after 2 repeats: ±4.2 % reached, 3 %
    needs about 4 min more.``
    """
    if stop is None:
        return ""
    reached = _reached(stop)
    return f"{_end(stop)}: {reached}." if reached else f"{_end(stop)}."


def _end(stop: Stop) -> str:
    repeats = f"{stop.num_repeats} repeat" + ("" if stop.num_repeats == 1 else "s")
    if stop.reason == StopReason.BUDGET:
        return f"Stopped at {units.duration(stop.elapsed_s)}, after {repeats}"
    if stop.reason == StopReason.NOTHING:
        return f"Stopped after {repeats}, with no efficiency to narrow"
    return f"Stopped after {stop.num_repeats} of at most {stop.most_repeats} repeats"


def _reached(stop: Stop) -> str:
    if stop.half_width is None:
        return ""
    reached = f"±{units.two_digit_percent(stop.half_width)} reached"
    if stop.precision is None:
        return reached
    asked = units.percent_limit(stop.precision)
    if stop.half_width <= stop.precision:
        return f"{reached} ({asked} asked)"
    if stop.missing_s is None or stop.num_repeats < _REPEATS_TO_PREDICT:
        return f"{reached} ({asked} asked)"
    if stop.missing_s > _LONGEST_S:
        return f"{reached}, {asked} is out of reach here (more than a day)"
    return f"{reached}, {asked} needs about {units.duration(_rounded(stop.missing_s))} more"


def _rounded(missing_s: float) -> float:
    """Whole minutes from two minutes on: an estimate has no more."""
    return round(missing_s / 60) * 60 if missing_s >= 120 else round(missing_s / 10) * 10 or 10
