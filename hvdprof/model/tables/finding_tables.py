"""What analyses find wrong or unusual: one table that every analysis adds to."""

from hvdprof.model.schema import Column, Table

SEVERITIES: tuple[str, ...] = ("error", "warning", "note")
"""From worst: it does not work; it costs speed; it is worth knowing."""

CONFIDENCES: tuple[str, ...] = ("certain", "likely", "possible")
"""Whether the evidence states it, implies it, or only suggests it."""

FINDINGS = Table(
    "findings",
    "One thing that is wrong or unusual, with its evidence and what to do about it.",
    (
        Column("id", "category", "", "Name of the rule, such as nccl-p2p-disabled; does not vary."),
        Column("severity", "category", "", "error, warning or note."),
        Column("subject", "category", "", "What it is about: a host, a rank, a variable."),
        Column("sentence", "str", "", "What was found, one sentence."),
        Column("evidence", "str", "", "The line that shows it, verbatim; empty where counted."),
        Column("file", "category", "", "File of the evidence; empty where none."),
        Column("line", "Int64", "", "Line of the evidence, from 1; missing where none."),
        Column("remedy", "str", "", "What to do: an exact variable or command where one exists."),
        Column("confidence", "category", "", "certain, likely or possible."),
        Column("model", "str", "", "Model of the cell it is about; empty where of the whole run."),
        Column("np", "Int64", "", "Ranks of that cell; missing where of the whole run."),
        Column("engine", "str", "", "Engine of that cell; empty where of the whole run."),
        Column("cost_ns", "float64", "ns", "What it costs a step; NaN where not known."),
        Column("cost_share", "float64", "ratio", "The same by the step time of the cell."),
        Column(
            "ceiling_share",
            "float64",
            "ratio",
            "Share of the step that comes back at most if it is mended (replay); NaN where not "
            "known.",
        ),
    ),
)
