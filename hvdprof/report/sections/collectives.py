"""Bus bandwidth by collective and payload.

Tested in ``tests/ingest/kineto/test_traced_run.py``.
"""

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_BANDWIDTHS
from hvdprof.report.sections.section import Head, Section

_HEADS = (
    Head("collective", is_text=True),
    *map(Head, ("ranks", "payload", "calls", "median transfer", "median busbw")),
)
_MOST_ROWS = 8
_CAPTION = "from the last arrival to the end; busbw as nccl-tests defines it"


def collective_sections(analysis: RunAnalysis) -> tuple[Section, ...]:
    """Collectives and sizes, those that transfer longest first; none without a bus bandwidth."""
    table = analysis.table(COLLECTIVE_BANDWIDTHS.name)
    if table.empty:
        return ()
    rows = tuple(_row(row) for row in table.head(_MOST_ROWS).to_dict("records"))
    more = len(table) - len(rows)
    left_out = (
        f"{units.counted(more, 'more row')}: `--section {COLLECTIVE_BANDWIDTHS.name}` shows all."
    )
    sentences = (left_out,) if more else ()
    return (Section("Bus bandwidth", "", _CAPTION, _HEADS, rows, sentences),)


def _row(row: FrameRow) -> tuple[str, ...]:
    low, high = (units.byte_size(row[name]) for name in ("size_low_bytes", "size_high_bytes"))
    return (
        str(row["collective"]),
        units.count(row["num_ranks"]),
        low if low == high else f"{low} to {high}",
        units.count(row["number"]),
        units.milliseconds(float(row["transfer_median_ns"])),
        units.of_unit(float(row["busbw_median_gb_per_s"]), "GB/s"),
    )
