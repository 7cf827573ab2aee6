"""The tables that `hvdprof convert` writes and `hvdprof sql` queries."""

from collections.abc import Sequence
from pathlib import Path

from hvdprof import api
from hvdprof.cli.load_progress import Told
from hvdprof.ingest.load_files import kept_events, load_files
from hvdprof.model.catalogue import TABLES
from hvdprof.model.tables import EVENTS
from hvdprof.report.table_files import Rows


def loaded_tables(paths: Sequence[Path], told: Told) -> dict[str, Rows]:
    """All tables that have rows, by name, in the order of the docs.

    The events of a large timeline that is given alone stay in the file that keeps them.

    Raises:
        UnreadableInputError: Nothing usable is there.
    """
    events = kept_events(paths[0], progress=told) if len(paths) == 1 else None
    if events is None:
        return dict(api.all_tables(api.load_run(paths, progress=told)))
    run = load_files(paths, progress=told, with_events=False)
    tables: dict[str, Rows] = {**api.all_tables(run), EVENTS.name: events}
    return {table.name: tables[table.name] for table in TABLES if table.name in tables}
