"""For every format: a verdict states no number but those of its own facts and tables."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hvdprof import units
from hvdprof.api import analyze_files, load_run
from hvdprof.model.file_page import FilePage
from hvdprof.model.standalone_files import FilesAnalysis
from tests.builders.fuzz_seeds import KINDS
from tests.builders.printed_texts import NCCL, TEXTS

NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?")
DERIVED = {
    r"fewer than \d+": "the threshold of the sentence",
    r"First uses wait [\d.]+ \w+": "of the uses before the first step, which are no fact",
    r"with such a serial part \d+ ranks reach [\d.]+ %": "a prediction from the serial fraction",
    r"takes [\d.]+ % of the (?:logged )?time in": "a share of the sum of a table",
    r"[\d.]+ % of that time is waiting": "a share of the sum of a table",
    r"hides [\d.]+ % of the NCCL time": "a share of two columns",
    r"Ranks differ in [^.]*(?:\.\d[^.]*)*\.": "of the timers of two ranks, whose names are facts",
}
"""Clauses with numbers that are neither fact nor cell, and what they are."""


def texts_of(values: "pd.Series[float]") -> Iterator[str]:
    """Values of a column as verdicts print them: plain, as share, time, size, rate."""
    for value in {*values, float(values.median())}:
        yield f"{value:g}"
        yield units.rate(value)
        yield f"{value:.2f}"
        yield from (units.percent(value), units.percent(value, 2))
        if value > 0:
            yield units.milliseconds(value)
            yield units.byte_size(value)


def numbers_in(text: str) -> set[str]:
    return {number.replace(",", "") for number in NUMBER.findall(text)}


def known_numbers(analysis: FilesAnalysis, page: FilePage) -> set[str]:
    facts = [text for fact in page.facts for text in (str(fact.value), fact.text)]
    values = [fact.value for fact in page.facts if isinstance(fact.value, int | float)]
    texts = [*facts, *texts_of(pd.Series(values or [0.0], dtype=float).dropna())]
    for frame in (*analysis.run.tables.values(), *analysis.derived.values()):
        for name in frame:
            column = frame[name].dropna()
            if pd.api.types.is_bool_dtype(column) or column.empty:
                continue
            if pd.api.types.is_numeric_dtype(column):
                texts += texts_of(pd.Series(np.unique(column)[:500], dtype=float))
            else:
                texts += column.astype(str).unique()[:500].tolist()
    return {number for text in texts for number in numbers_in(text)}


def stated_numbers(page: FilePage) -> set[str]:
    """The numbers of a verdict without its fix and the derived clauses."""
    lead = re.split(r"[Ff]ix: ", page.verdict)[0]
    for clause in DERIVED:
        lead = re.sub(clause, "", lead)
    return numbers_in(lead)


def pages_of(path: Path) -> Iterator[tuple[FilesAnalysis, FilePage]]:
    run = load_run(path)
    if not run.recorded:
        analysis = analyze_files(run)
        yield from ((analysis, page) for page in analysis.files if page.verdict)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "run directory"])
def test_a_verdict_states_no_number_but_those_of_its_tables(kind: str, tmp_path: Path) -> None:
    for path in KINDS[kind](tmp_path):
        for analysis, page in pages_of(path):
            unknown = stated_numbers(page) - known_numbers(analysis, page)
            assert not unknown, f"{page.file}: {page.verdict}"


@pytest.mark.parametrize("name", [*TEXTS, "nccl"])
def test_so_does_that_of_printed_text(name: str, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text({**TEXTS, "nccl": NCCL}[name], encoding="utf-8")
    for analysis, page in pages_of(path):
        unknown = stated_numbers(page) - known_numbers(analysis, page)
        assert not unknown, page.verdict


def test_a_number_of_no_fact_is_found(tmp_path: Path) -> None:
    path = tmp_path / "sweep.txt"
    path.write_text(TEXTS["nccl-tests"])
    ((analysis, page),) = pages_of(path)
    known = known_numbers(analysis, page)
    assert not numbers_in("with busbw of 178.078 GB/s") - known
    assert numbers_in("peak 317 GB/s of 12.34 GB") - known == {"317", "12.34"}
