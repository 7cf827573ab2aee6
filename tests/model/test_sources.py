"""Every kind of file that the readers can return stands in one entry of SOURCES."""

import pytest

from hvdprof.ingest.logs.printed_file import PARTS
from hvdprof.ingest.logs.printed_rates import PrintedRates
from hvdprof.ingest.rates.formats import OTHER, RATE_FORMATS
from hvdprof.ingest.recognise import Kind
from hvdprof.model.sources import RATES, SOURCES, source_of

NO_FORMAT = (Kind.RUN, Kind.TEXT, Kind.ARCHIVE, Kind.FOREIGN, Kind.SAMPLES)
OF_FILES = [str(kind) for kind in Kind if kind not in NO_FORMAT]
OF_TEXT = [str(vars(part)["KIND"]) for part in PARTS if part is not PrintedRates]
OF_RATES = [f"{one.tool} output" for one in RATE_FORMATS if one.tool != OTHER]


@pytest.mark.parametrize("kind", [*OF_FILES, *OF_TEXT, "NCCL log", "throughput lines"])
def test_every_kind_stands_in_exactly_one_entry(kind):
    name = f"{kind}*" if kind == Kind.TRACE else kind
    (entry,) = (source for source in SOURCES if name in source.kinds)
    assert source_of(kind) is entry


def test_no_entry_names_a_kind_that_no_reader_returns():
    known = {*OF_FILES, *OF_TEXT, "NCCL log", "throughput lines", "* output", f"{Kind.TRACE}*"} - {
        Kind.TRACE
    }
    assert {kind for source in SOURCES for kind in source.kinds} == known


def test_the_output_of_every_tool_is_of_rates():
    assert {source_of(kind) for kind in OF_RATES} == {RATES}


def test_a_file_of_several_kinds_and_plain_text_are_of_no_format():
    assert source_of("NCCL log, timm output") is None
    assert source_of("text") is None


def test_every_entry_says_what_it_is_and_how_it_is_attached():
    for source in SOURCES:
        assert source.called
        assert (source.attached is None) == bool(source.why_not)
    assert len({source.called for source in SOURCES}) == len(SOURCES)


def test_what_is_shown_has_a_title():
    assert all(shown.title for source in SOURCES for shown in source.shown)
