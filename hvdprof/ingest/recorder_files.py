"""Files of hvdprof's recorder that are given without their run directory, to tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.file_entry import FileEntry
from hvdprof.ingest.recognise import Kind, Recognised
from hvdprof.ingest.tables.run_builder import RunBuilder
from hvdprof.model.notes import NoteCode
from hvdprof.rundir.regular_file import shown_name

if TYPE_CHECKING:
    from hvdprof.ingest.recorder.recorder_file import RecorderFile


def add_recordings(files: Sequence[Recognised], builder: RunBuilder) -> list[FileEntry]:
    """Add what ranks recorded of a launch without its run; those of one folder are of one launch.

    Returns:
        The entries of the files of recorders, also of those that are left out.
    """
    by_folder: dict[Path, list[Recognised]] = {}
    for file in files:
        if file.kind == Kind.RECORDER:
            by_folder.setdefault(file.path.parent, []).append(file)
    entries = [
        entry
        for folder, members in by_folder.items()
        for entry in _add_launch(folder, members, builder)
    ]
    return entries + _left_out_samples(files, builder)


def _left_out_samples(files: Sequence[Recognised], builder: RunBuilder) -> list[FileEntry]:
    """Files of samples: they name no steps, and some no rank, so that a run has to."""
    entries = [FileEntry(file, file.what) for file in files if file.kind == Kind.SAMPLES]
    if entries:
        others = f" and {len(entries) - 1} more" if len(entries) > 1 else ""
        error = UnreadableInputError(
            f"{entries[0].found.name}{others}: samples are read with their run directory.",
            hint="Give it: hvdprof analyze RUN",
        )
        builder.notes += dict.fromkeys(entry.fail(error, NoteCode.LEFT_OUT) for entry in entries)
    return entries


def _add_launch(folder: Path, found: Sequence[Recognised], builder: RunBuilder) -> list[FileEntry]:
    """The recordings of one launch: those that lie in one folder."""
    from hvdprof.ingest.recorder.clock_alignment import alignment_of
    from hvdprof.ingest.recorder.light_steps import steps_from_windows
    from hvdprof.ingest.recorder.recorder_lines import read_recorder_file
    from hvdprof.ingest.recorder.session_rows import exclude_evaluations

    files: dict[int, RecorderFile] = {}
    entries = []
    for number, one in enumerate(found):
        entry = FileEntry(one, one.what)
        entries.append(entry)
        try:
            file = read_recorder_file(one.path)
        except OSError as error:
            builder.notes.append(entry.fail(error))
            continue
        rank = file.header_number("rank", number)
        if rank in files:
            reason = f"{one.name}: another file holds rank {rank}; left out."
            builder.notes.append(entry.fail(UnreadableInputError(reason), NoteCode.LEFT_OUT))
            continue
        files[rank] = file
        builder.notes += [clause.at(one.name, ranks=[rank]) for clause in file.clauses()]
        entry.num_rows = sum(
            segment.num_steps or len(segment.windows) for segment in file.segments.values()
        )
        entry.num_rows += len(file.marks) + bool(file.header)
    steps_from_windows(files.values())
    # Ranks whose recordings are not given may have trained on in a step with an evaluation.
    if len(files) >= max((file.header_number("size", 0) for file in files.values()), default=0):
        exclude_evaluations(files.values())
    for rank, file in sorted(files.items()):
        builder.add_recording(shown_name(folder), rank, file, alignment_of(file, files.get(0)))
    return entries
