"""The names of the formats; the command line reads them without importing what writes them."""

from enum import StrEnum

from hvdprof.model.sources import called
from hvdprof.rundir.attached import AttachedKind

FILES_READ, RECORDINGS_READ = called(), called(AttachedKind.RECORDING)
"""What can be read beside run directories, and what of it other recorders write."""


class Format(StrEnum):
    """Every format of a finished analysis; ``report.formats`` has the reporter of each."""

    TERMINAL = "terminal"
    JSON = "json"
    CSV = "csv"
    HTML = "html"
    MARKDOWN = "markdown"
    CHROME = "chrome"


RESULTS = (Format.TERMINAL, Format.JSON)
"""For a reader or a program."""

ANALYSES = (*RESULTS, Format.CSV)
"""Results, and their central table."""

DOCUMENTS = (Format.HTML, Format.MARKDOWN)
"""What ``hvdprof report`` writes."""


class AnalysisFormat(StrEnum):
    """What ``hvdprof analyze`` writes; ``hvdprof export`` writes traces."""

    TERMINAL = "terminal"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    GITHUB = "github"
    JSON_SCHEMA = "json-schema"


GATES = (AnalysisFormat.MARKDOWN, AnalysisFormat.JUNIT, AnalysisFormat.GITHUB)
"""What shows the limits of ``--fail-on``."""

GATE_SUFFIXES = {".md": AnalysisFormat.MARKDOWN, ".xml": AnalysisFormat.JUNIT}
"""The ends of file names that choose one of them."""


class TraceFormat(StrEnum):
    """What ``hvdprof export`` writes: for viewers, for simulators, and for flame graphs."""

    CHROME = "chrome"
    CHAKRA = "chakra"
    SPEEDSCOPE = "speedscope"
    FOLDED = "folded"


class ComparisonFormat(StrEnum):
    """Every format of a comparison; ``comparison_answer`` writes it."""

    TERMINAL = "terminal"
    JSON = "json"
    HTML = "html"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    GITHUB = "github"
    CSV = "csv"


class TuningFormat(StrEnum):
    """Every format of a tuning; ``tuning_answer`` writes it."""

    TERMINAL = "terminal"
    JSON = "json"
    HTML = "html"
    MARKDOWN = "markdown"


class TableFormat(StrEnum):
    """The formats in which tables are written."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
