"""What a run of attached files comes down to: it has no baseline, so no efficiency."""

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from hvdprof.analyze.files.timeline_verdict import timeline_verdict
from hvdprof.model.run import Run, Verdict
from hvdprof.model.tables.log_tables import INCIDENTS
from hvdprof.model.tables.timeline_file_tables import TIMELINES
from hvdprof.model.tables.timeline_tables import EXECUTIONS, INFERRED_STEPS, TENSOR_USES
from hvdprof.rundir.attached import AttachedKind, attached_files


def attached_verdict(run: Run, answer: Verdict) -> Verdict:
    """The verdict of attached files: of each timeline, and of what the output tells of trouble.

    Args:
        run: Any run.
        answer: The verdict that holds where nothing was attached.
    """
    if not attached_files(run.manifest):
        return answer
    sentences = [*_of_timelines(run), *_of_output(run)]
    if not sentences:
        return replace(answer, sentence="The attached files hold nothing that tells of steps.")
    return replace(answer, sentence=" ".join(sentences))


def _of_timelines(run: Run) -> Iterator[str]:
    told = run.table(TIMELINES.name)
    tables = [run.table(table.name) for table in (TENSOR_USES, EXECUTIONS, INFERRED_STEPS)]
    for record in told.to_dict("records"):
        row = {str(name): value for name, value in record.items()}
        segment = str(row["segment"])
        uses, executions, steps = (rows[rows["segment"] == segment] for rows in tables)
        sentence = timeline_verdict(uses, executions, steps, row)
        yield sentence if len(told) == 1 else f"{segment}: {sentence}"


def _of_output(run: Run) -> Iterator[str]:
    incidents = run.table(INCIDENTS.name)
    if len(incidents):
        first = incidents.iloc[0]
        where = f"line {first['line']}"
        outputs = [one for one in attached_files(run.manifest) if one.kind == AttachedKind.OUTPUT]
        if len(outputs) > 1:
            where += f" of {first['file']}"
        if not pd.isna(first["rank"]):
            where += f", by rank {first['rank']}"
        message = str(first["message"]).rstrip(".")
        yield f"Its output tells of trouble, first in {where}: {message}."
