"""What to do about a finding: the whole text, the fix for the headline, the command to copy."""

from dataclasses import astuple, dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do; all empty where there is nothing to do.

    Attributes:
        text: All of it, in sentences.
        fix: Its first step as a clause: ``unset HOROVOD_CYCLE_TIME``.
        command: What can be copied; empty without one.
    """

    text: str = ""
    fix: str = ""
    command: str = ""

    def formatted(self, **values: object) -> Self:
        """With values in place of the fields in braces."""
        return type(self)(*(text.format(**values) for text in astuple(self)))


def advice(fix: str, more: str = "", *, command: str = "", first: str = "") -> Advice:
    """Advice whose first sentence is the fix, unless ``first`` says more than that."""
    return Advice(sentences(first or as_sentence(fix), more), fix, command)


def set_to(assignment: str, rest: str = "", more: str = "", *, unit: str = "") -> Advice:
    """Advice to set a variable: ``set_to("NCCL_DEBUG=INFO", " on all ranks")``."""
    return _variable(f"set {assignment}", rest, more, unit, f"export {assignment}")


def unset(name: str, rest: str = "", more: str = "", *, default: str = "") -> Advice:
    """Advice to unset a variable: ``unset("NCCL_ALGO", " and compare")``."""
    return _variable(f"unset {name}", rest, more, default, f"unset {name}")


def _variable(what: str, rest: str, more: str, aside: str, command: str) -> Advice:
    first = as_sentence(f"{what} ({aside}){rest}") if aside else ""
    return advice(what + rest, more, command=command, first=first)


def in_turn(*parts: Advice) -> Advice:
    """One after the other: the fix of the first, and the first command that there is."""
    given = [part for part in parts if part.text]
    return Advice(
        sentences(*(part.text for part in given)),
        given[0].fix if given else "",
        next((part.command for part in given if part.command), ""),
    )


@dataclass(frozen=True, slots=True)
class Likely:
    """What is likely behind exposed communication: rule, title, reason, action, more evidence."""

    id: str
    title: str
    why: str
    action: Advice
    evidence: str = ""


def as_sentence(clause: str) -> str:
    """A clause as a sentence: with a capital and a full stop; empty where the clause is."""
    return f"{clause[0].upper()}{clause[1:]}." if clause else ""


def sentences(*parts: str) -> str:
    """The parts that are not empty, one after the other."""
    return " ".join(part for part in parts if part)


END_OTHER_PROCESSES = advice("end the other processes or use an idle machine, then measure again")
FREE_CORES = advice(
    "give the ranks cores of their own: end other processes, use fewer threads and workers",
    "`top -H` on the hosts shows what runs there.",
    command="top -H",
)
