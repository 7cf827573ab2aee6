"""The analysis of standalone files: a page, JSON and HTML."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from hvdprof import units
from hvdprof.model.notes import texts
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.printed_tables import NCCL_TEST_RUNS, NCCL_TESTS
from hvdprof.report.answer import Answer
from hvdprof.report.answers.scaling import with_ends
from hvdprof.report.json_values import JsonObject, json_rows, json_value
from hvdprof.report.sections.file_page import file_sections, nccl_test_sections, page_json
from hvdprof.report.sections.section import Head, Page, Section

FILES_SCHEMA_VERSION = 2
_AS_ABOVE = "As above."


def files_answer(found: FilesAnalysis) -> Answer:
    """A finished analysis of files, to be written for readers, for programs, and as HTML."""
    name = found.run.manifest.name
    return Answer(partial(_page, found), partial(files_json, found), name=name)


def _page(found: FilesAnalysis) -> Page:
    """What all files say together, their pages, tables made of them, findings and warnings."""
    joint, files = tuple(_joint(found)), tuple(_files(found))
    run = found.run
    return Page(
        (
            *(files + joint if found.is_grave else joint + files),
            *nccl_test_sections(run.table(NCCL_TEST_RUNS.name), run.table(NCCL_TESTS.name)),
            *_throughputs(found),
        ),
        found.derived.get(FINDINGS.name, FINDINGS.empty()),
        tuple(texts(run.notes)),
    )


def _joint(found: FilesAnalysis) -> Iterator[Section]:
    """The verdicts on several files together; a caveat of several stands once."""
    caveats = set[str]()
    for verdict in found.verdicts:
        is_known = verdict.caveat in caveats
        yield Section(verdict=verdict.sentence, caveat="" if is_known else verdict.caveat)
        caveats.add(verdict.caveat)


def _files(found: FilesAnalysis) -> Iterator[Section]:
    caveats = set[str]()
    for page in found.files:
        is_known = page.caveat in caveats
        yield from file_sections(replace(page, caveat=_AS_ABOVE) if is_known else page)
        caveats |= {page.caveat} - {""}


def files_json(found: FilesAnalysis) -> JsonObject:
    """The analysis as plain dictionaries, lists, texts, numbers and ``None``.

    ``tables`` holds the derived tables, with the columns that docs/reference/tables.md lists.
    """
    return {
        "schema_version": FILES_SCHEMA_VERSION,
        "verdicts": [verdict.sentence for verdict in found.verdicts],
        "caveats": [verdict.caveat for verdict in found.verdicts],
        "files": [page_json(page) for page in found.files],
        "tables": {name: json_rows(frame) for name, frame in found.derived.items()},
        "row_counts": json_value(found.run.row_counts),
        "notes": json_value(texts(found.run.notes)),
    }


def _throughputs(found: FilesAnalysis) -> tuple[Section, ...]:
    """The throughputs of standalone files, a table per series."""
    scaling = found.throughput_scaling
    several = len(scaling["file"].unique()) > 1
    sections = []
    for series, members in scaling.groupby("series", observed=True, sort=False):
        base = members["baseline_np"].iloc[0]
        has_intervals = bool(members["efficiency_low"].notna().any())
        repeated = "repeats apart" if members["np"].duplicated().any() else "no repeats"
        known = "95 % CI within each launch" if has_intervals else repeated
        against = "no baseline" if pd.isna(base) else f"against np={base}, {known}"
        stated = ["as stated"] * bool(members["stated_speedup"].notna().any())
        files = ["file"] * several
        rows = [
            (
                units.count(row["np"]),
                units.rate_interval(*with_ends(row, "samples_per_s")),
                units.rate_interval(*with_ends(row, "speedup")),
                *(units.rate(row["stated_speedup"]) for _ in stated),
                units.percent_interval(*with_ends(row, "efficiency")),
                *(Path(str(row["file"])).name for _ in files),
            )
            for row in members.to_dict("records")
        ]
        heads = ("np", "samples/s", "speed-up", *stated, "efficiency", *files)
        shown = tuple(Head(head, is_text=head == "file") for head in heads)
        title = str(series) or "throughput"
        sections.append(Section(title, against, heads=shown, rows=tuple(rows)))
    return tuple(sections)
