"""What a section of a report is made of, before any format draws it.

Tested in ``tests/report/sections/test_run_sections.py``.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Head:
    """A column: its name, and whether it holds words instead of numbers.

    A line break in the name is one in a terminal only. ``is_detail`` columns are in documents, not
    in a terminal.
    """

    name: str
    is_text: bool = False
    is_detail: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """One section as texts; what is empty is not drawn.

    Attributes:
        title: The heading.
        detail: What of the run it is about, beside the heading.
        caption: How the rows were measured, above them.
        heads: One per column.
        rows: One text per column each.
        sentences: What follows from the rows; commands in backticks.
        note: What the columns mean, below them.
    """

    title: str
    detail: str = ""
    caption: str = ""
    heads: tuple[Head, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()
    note: str = ""
