"""Where the copies of attached files lie in their run directory, and what they are called there."""

from collections.abc import Sequence
from pathlib import Path

from hvdprof.ingest.rundir.attach_sources import Source
from hvdprof.rundir.attached import AttachedFile, AttachedKind
from hvdprof.rundir.layout import PassPaths, RunPaths
from hvdprof.rundir.manifest import PassRecord
from hvdprof.rundir.regular_file import shown_name


def copies_of(sources: Sequence[Source], record: PassRecord) -> list[tuple[Source, AttachedFile]]:
    """Where each file goes: paths in the run directory, no two alike."""
    paths = PassPaths(RunPaths(Path()).of_pass(record.id).folder)
    by_kind = {kind: [source for source in sources if source.kind == kind] for kind in AttachedKind}
    segments = [segment.segment.id for segment in record.segments]
    logs = distinct([name_in_run(source.path) for source in by_kind[AttachedKind.NCCL_LOG]])
    traces = distinct([name_in_run(source.path) for source in by_kind[AttachedKind.TRACE]])
    phases = distinct([name_in_run(source.path) for source in by_kind[AttachedKind.PHASE_LOG]])
    recordings = _apart([name_in_run(source.path) for source in by_kind[AttachedKind.RECORDING]])
    outputs = by_kind[AttachedKind.OUTPUT]
    # The one output of a whole job lies where a measured run has it, so that all commands see it.
    if len(outputs) == 1 and outputs[0].rank is None:
        output_paths = [paths.stdout]
    else:
        names = distinct([_output_name(output) for output in outputs])
        output_paths = [paths.output_folder / name for name in names]
    targets = {
        AttachedKind.TIMELINE: [paths.timeline(segment) for segment in segments],
        AttachedKind.TRACE: [paths.trace_folder / name for name in traces],
        AttachedKind.PHASE_LOG: [paths.trace_folder / name for name in phases],
        AttachedKind.NCCL_LOG: [paths.nccl_folder / name for name in logs],
        AttachedKind.OUTPUT: output_paths,
        AttachedKind.RECORDING: [paths.recording_folder / name for name in recordings],
    }
    return [
        (
            one,
            AttachedFile(
                kind=one.kind, given=shown_name(one.path), copy=path.as_posix(), rank=one.rank
            ),
        )
        for kind, places in targets.items()
        for one, path in zip(by_kind[kind], places, strict=False)
    ]


def _output_name(source: Source) -> str:
    name = name_in_run(source.path)
    return name if source.rank is None else f"rank-{source.rank}-{name}"


def name_in_run(path: Path) -> str:
    """The name of a file, without its folder, as the manifest can hold it."""
    return Path(shown_name(path)).name


def distinct(names: Sequence[str]) -> list[str]:
    """Names made different by a number where they are alike, hidden ones made visible."""
    taken: set[str] = set()
    result = []
    for name in names:
        visible = name.lstrip(".") or "file"
        candidate, number = visible, 2
        while candidate in taken:
            candidate, number = f"{number}-{visible}", number + 1
        taken.add(candidate)
        result.append(candidate)
    return result


def _apart(names: Sequence[str]) -> list[str]:
    """Names as they are, in folders of their own where they are alike.

    A number before a name would be taken for the rank of a dump.
    """
    seen: dict[str, int] = {}
    result = []
    for name in names:
        number = seen[name] = seen.get(name, 0) + 1
        visible = name.lstrip(".") or "file"
        result.append(visible if number == 1 else f"{number}/{visible}")
    return result
