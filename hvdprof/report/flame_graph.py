"""Sampled lines as flame graphs: speedscope's JSON, and the folded stacks of flamegraph.pl."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.model.cause_names import code_place
from hvdprof.model.run import Run
from hvdprof.model.tables.line_tables import LINE_SAMPLES
from hvdprof.report.format_names import TraceFormat
from hvdprof.report.formats import write_text
from hvdprof.rundir.recording.line_format import MAIN_PROCESS

SCHEMA = "https://www.speedscope.app/file-format-schema.json"

_STACK = ["rank", "process", "phase", "file", "line", "function", "leaf"]


def flame_samples(run: Run, pass_id: str | None = None, model: str | None = None) -> pd.DataFrame:
    """The samples of one pass by stack: rank, process, phase, line and what it has called.

    Args:
        run: The run.
        pass_id: The pass; the one of the most ranks that was sampled when not given.
        model: A model; else all of the pass.

    Raises:
        UsageError: No such pass or model was sampled.
        UnreadableInputError: The run holds no samples.
    """
    samples = run.table(LINE_SAMPLES.name)
    if samples.empty:
        raise UnreadableInputError(
            f"{run.folder} holds no samples of lines of code.",
            hint="Record them with hvdprof run or bench, without --no-lines.",
        )
    segments = run.segments.astype({"pass_id": str, "segment": str})
    if model is not None:
        segments = segments[(segments["model"] == model).to_numpy()]
    names = {name: str for name in ("pass_id", "segment", *_STACK) if name not in ("rank", "line")}
    known = samples.astype(names).merge(
        segments[["pass_id", "segment", "size", "repeat"]], on=["pass_id", "segment"]
    )
    order = known.sort_values(["size", "repeat"], ascending=[False, True], kind="stable")
    chosen = pass_id or (str(order["pass_id"].iloc[0]) if len(order) else "")
    own = known[(known["pass_id"] == chosen).to_numpy()]
    if own.empty:
        sampled = ", ".join(dict.fromkeys(samples["pass_id"].astype(str)))
        raise UsageError(
            f"No samples of {'pass ' + pass_id if pass_id else 'a pass'}"
            f"{' with model ' + model if model else ''}.",
            hint=f"Sampled passes: {sampled}.",
        )
    return own.groupby(_STACK, sort=True)["samples"].sum().reset_index()


def write_flames(
    run: Run,
    output: Path,
    format_: TraceFormat,
    chosen: tuple[str | None, str | None] = (None, None),
    *,
    overwrite: bool = False,
) -> None:
    """Write the samples of one pass to a file.

    Args:
        run: The run.
        output: The file.
        format_: SPEEDSCOPE or FOLDED.
        chosen: Pass and model, as for ``flame_samples``.
        overwrite: Whether a file of that name may be replaced.

    Raises:
        UsageError: No such pass or model was sampled.
        UnreadableInputError: The run holds no samples.
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    stacks = list(_stacks(flame_samples(run, *chosen)))
    if format_ is TraceFormat.FOLDED:
        lines = []
        for rank, stack, count in stacks:
            frames = [f"rank {rank}", *(text for text, *_ in stack)]
            lines.append(f"{';'.join(text.replace(';', ',') for text in frames)} {count}\n")
        content = "".join(lines)
    else:
        content = json.dumps(_speedscope(stacks, run.shown_name))
    write_text(output, lambda file: file.write(content), overwrite=overwrite)


_Frame = tuple[str, str, int]
"""Name, file and line of a frame; empty and 0 where unknown."""


_Stack = tuple[int, list[_Frame], int]
"""Rank, frames from the outermost one, and samples."""


def _stacks(samples: pd.DataFrame) -> Iterator[_Stack]:
    for row in samples.to_dict("records"):
        is_main = row["process"] == MAIN_PROCESS
        file, line = str(row["file"]), int(row["line"])
        frames = [(str(row["phase"]) if is_main else "DataLoader workers", "", 0)]
        if file:
            frames.append((code_place(file, line, str(row["function"])), file, line))
        if row["leaf"]:
            frames.append((str(row["leaf"]), "", 0))
        yield int(row["rank"]), frames, int(row["samples"])


def _speedscope(stacks: Iterable[_Stack], name: str) -> dict[str, object]:
    """A profile for each rank, of samples counted by stack."""
    numbers: dict[_Frame, int] = {}
    of_ranks: dict[int, list[tuple[list[int], int]]] = {}
    for rank, stack, count in stacks:
        places = [numbers.setdefault(frame, len(numbers)) for frame in stack]
        of_ranks.setdefault(rank, []).append((places, count))
    frames = [
        {"name": text} | ({"file": file, "line": line} if file else {})
        for text, file, line in numbers
    ]
    return {
        "$schema": SCHEMA,
        "exporter": "hvdprof",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": [
            {
                "type": "sampled",
                "name": f"rank {rank}",
                "unit": "none",
                "startValue": 0,
                "endValue": sum(count for _, count in own),
                "samples": [places for places, _ in own],
                "weights": [count for _, count in own],
            }
            for rank, own in sorted(of_ranks.items())
        ],
    }
