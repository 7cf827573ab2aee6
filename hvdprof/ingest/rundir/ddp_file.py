"""How a script wraps its model in DDP, as rank 0 noted it in each launch."""

import dataclasses

from hvdprof.errors import UnreadableInputError
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Run
from hvdprof.rundir.json_codec import read_json
from hvdprof.rundir.launch_format import DdpFacts
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.regular_file import NotRegularFileError, checked_inside


def with_ddp_facts(run: Run) -> Run:
    """The run with what is known of DDP on the most ranks; a damaged file becomes a note.

    Of several launches it is the one with a trace, which also measures allreduces.
    """
    passes = run.manifest.passes
    paths = RunPaths(run.folder)
    most = max((record.size for record in passes), default=0)
    found: list[DdpFacts] = []
    notes: list[Note] = []
    for record in passes:
        path = paths.of_pass(record.id).ddp_facts
        if record.size != most or not path.exists():
            continue
        try:
            found.append(read_json(DdpFacts, checked_inside(run.folder, path)))
        except (UnreadableInputError, NotRegularFileError) as error:
            text = f"What {record.id} noted of DDP cannot be read: {error}"
            notes.append(Note(NoteCode.UNREADABLE, text))
    if not found and not notes:
        return run
    facts = max(found, key=lambda noted: len(noted.allreduces), default=None)
    return dataclasses.replace(run.extended({}, notes), ddp=facts)
