"""What a file says, on its page: facts, verdict, open questions."""

from dataclasses import dataclass
from enum import IntEnum

PROFILER_TRACE = "PyTorch profiler trace"
"""How the kind of a trace of torch.profiler begins."""
PHASE_LOG = "torchtitan phase log"
"""The kind of a log of the phases of a rank."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact; ``name`` is its key in JSON, ``unit`` one of model.schema's or empty.

    A page shows ``text`` where it is given, and omits a fact whose ``label`` is empty: the line of
    another fact states it. A text may have several lines.
    """

    name: str
    label: str
    value: str | int | float | None
    unit: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A question that the file cannot answer, why, and the command whose result can."""

    question: str
    command: str


class Gravity(IntEnum):
    """How grave a verdict is: the gravest is shown first.

    CLEAN is a log with nothing wrong: it speaks for several files where no other does.
    """

    HANG = 0
    ERROR = 1
    WARNING = 2
    NONE = 3
    CLEAN = 4


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """At most two sentences on a file or a table, and what limits them; both may be empty.

    ``has_numbers`` is false where the sentence says why the file gives none.
    ``short`` is the sentence without its fix; empty where it has none.
    """

    sentence: str
    caveat: str = ""
    gravity: Gravity = Gravity.NONE
    has_numbers: bool = True
    short: str = ""

    @property
    def headline(self) -> str:
        """The sentence as it stands in a headline."""
        return self.short or self.sentence


@dataclass(frozen=True, slots=True)
class FilePage:
    """One file: what it is, its facts, its open questions, its verdict with a caveat.

    ``verdict`` is empty where the file is not of a kind that gives one. ``left_out`` says why
    nothing of a file is used that should hold something. ``short`` is the verdict without its fix,
    empty where it has none.
    """

    file: str
    kind: str
    size_bytes: int
    facts: tuple[Fact, ...]
    unanswered: tuple[Unanswered, ...]
    verdict: str = ""
    caveat: str = ""
    left_out: str = ""
    gravity: Gravity = Gravity.NONE
    has_numbers: bool = True
    short: str = ""
