"""Tables of a comparison of two runs."""

from hvdprof.model.cell_key import CELL_COLUMNS
from hvdprof.model.schema import Column, Table
from hvdprof.model.tables.waterfall_tables import CAUSE_COLUMNS, DIFFERENCE_TIMES

_CHANGE_COLUMNS = (
    Column(
        "change",
        "float64",
        "Second against first: relative for times and rates (0.03 is 3 % more), a difference for "
        "ratios (0.03 is 3 points more).",
        "ratio",
    ),
    Column("change_low", "float64", "Lower end of its interval; NaN where unknown.", "ratio"),
    Column("change_high", "float64", "Upper end of its interval; NaN where unknown.", "ratio"),
    Column("margin", "float64", "Largest change that does not matter.", "ratio"),
    Column(
        "outcome",
        "str",
        "regressed, improved, equal, inconclusive or not comparable (docs/howto/compare.md).",
    ),
)

COMPARED_CELLS = Table(
    "compared_cells",
    "One metric of one cell in both runs, with its outcome.",
    (
        *CELL_COLUMNS,
        Column("metric", "str", "One of `hvdprof.model.results.comparison.METRICS`."),
        Column("unit", "str", "Unit of `first` and `second`."),
        Column("first", "float64", "Value in the first run."),
        Column("second", "float64", "Value in the second run."),
        *_CHANGE_COLUMNS,
        Column(
            "detectable",
            "float64",
            "Smallest true change that these launches would call regressed with 80 % probability.",
            "ratio",
        ),
        Column(
            "launches_needed",
            "Int64",
            "Launches a side that would decide with 80 % probability, if the change is as "
            "measured; missing where it is decided, or more than 1,000 are needed.",
        ),
        Column("num_first", "int64", "Launches of the first run."),
        Column("num_second", "int64", "Launches of the second run."),
        Column("paired", "bool", "Launches were interleaved, and are compared by repeat."),
        Column("reason", "str", "Why the cell is not comparable, or has no interval."),
    ),
)

COMPARED_POOLED = Table(
    "compared_pooled",
    "The mean change of one metric over all comparable cells, each with the same weight.",
    (
        Column("metric", "str", "One of `hvdprof.model.results.comparison.METRICS`."),
        Column("num_cells", "int64", "Cells in the mean."),
        *_CHANGE_COLUMNS,
    ),
)

MOVED_CAUSES = Table(
    "moved_causes",
    "What makes up the step time of a cell in both runs, term by term; the terms of a cell sum to "
    "its step time, and their differences to that of the step times.",
    (
        *CELL_COLUMNS,
        Column("term", "str", "One of `hvdprof.model.causes.COMPARED_TERMS`."),
        *CAUSE_COLUMNS[1:],
        *DIFFERENCE_TIMES,
        Column(
            "moved",
            "bool",
            "The difference is significant after correction for the number of terms (Holm).",
        ),
        Column(
            "own_change_ns",
            "float64",
            "Of a rank that changed alone: how much longer it takes in the phase than the other "
            "ranks, compared with the first run; else NaN. The difference is what that costs.",
            "ns",
        ),
        Column("own_change_low_ns", "float64", "Lower end of its 95 % interval.", "ns"),
        Column("own_change_high_ns", "float64", "Upper end of its 95 % interval.", "ns"),
    ),
)

SETTING_DIFFS = Table(
    "setting_diffs",
    "A setting, version, fact of a host or variable that differs between two runs.",
    (
        Column("place", "str", "settings, versions, hosts, environment or source."),
        Column("name", "str", "Its name."),
        Column("first", "str", "Value in the first run; empty where unset."),
        Column("second", "str", "Value in the second run; empty where unset."),
        Column("matters", "bool", "It makes the runs not comparable."),
    ),
)
