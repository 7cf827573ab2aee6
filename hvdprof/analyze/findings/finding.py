"""What a rule on a run or on NCCL logs returns.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

import math
import re
from dataclasses import dataclass

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.job_losses import share_of_job
from hvdprof.model.tables.finding_tables import SEVERITIES

SMALLEST_COST = 0.05
"""A loss that costs a smaller share of the step is no finding."""

WARNING_COST = 0.1
ERROR_COST = 0.2

END_OTHER_PROCESSES = "End the other processes or use an idle machine, then measure again."

_PARENTHESES = re.compile(r" \([^()]*\)")
_FIRST_SENTENCE = re.compile(r"^.*?\.(?= [A-Z]|$)")


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of ``model.tables.finding_tables.FINDINGS`` in the making.

    ``title`` is a noun phrase of at most 8 words, ``evidence`` holds plain sentences with numbers,
    ``action`` starts with an imperative verb or a command, ``quote`` is verbatim.
    """

    id: str
    severity: str
    subject: str
    title: str
    evidence: str
    action: str
    confidence: str
    file: str = ""
    line: int | None = None
    quote: str = ""
    model: str = ""
    np: int | None = None
    engine: str = ""
    cost_ns: float = NAN
    cost_low_ns: float = NAN
    cost_high_ns: float = NAN
    cost_share: float = NAN
    gain_share: float = NAN
    job_share: float = NAN


def as_sentence(clause: str) -> str:
    """A clause as a sentence: with a capital and a full stop; empty where the clause is."""
    return f"{clause[0].upper()}{clause[1:]}." if clause else ""


def sentences(*parts: str) -> str:
    """The parts that are not empty, one after the other."""
    return " ".join(part for part in parts if part)


def otherwise(first: str, action: str) -> str:
    """A second action behind a first one; the action alone where there is no first one."""
    return f"{first} Otherwise, {action[0].lower()}{action[1:]}" if first else action


def title_inside(title: str) -> str:
    """A title inside a sentence: ``persistent straggler (rank 3, data phase)``."""
    head, colon, rest = title.partition(": ")
    # A name such as NCCL or GPUDirect keeps its capitals.
    lead = head if head[1:2].isupper() else head[0].lower() + head[1:]
    return f"{lead} ({rest})" if colon else lead


def first_fix(action: str) -> str:
    """The first sentence of an action without its parentheses and full stop."""
    found = _FIRST_SENTENCE.match(action)
    first = _PARENTHESES.sub("", found[0] if found else action).removesuffix(".")
    return first[0].lower() + first[1:]


def severity_of_cost(share: float) -> str:
    """Note below a tenth of the step, warning below a fifth, else error."""
    if share >= ERROR_COST:
        return "error"
    return "warning" if share >= WARNING_COST else "note"


def by_gravity(finding: Finding, outside: float = 0.0) -> tuple[int, bool, bool, float]:
    """Sorts errors before warnings before notes, and the costlier first.

    An error without a cost comes before every loss: the job hung or failed. A cost at one rank
    stands last of its severity: the baseline has it too, so it is no reason for which the job does
    not scale.

    Args:
        finding: What to sort.
        outside: The share of the job outside the steps: costs are compared as shares of the job.
    """
    shares = (share_of_job(finding.cost_share, outside), finding.job_share)
    known = [share for share in shares if not math.isnan(share)]
    is_loss = bool(known) or finding.severity != "error"
    return (
        SEVERITIES.index(finding.severity),
        is_loss,
        finding.np == 1,
        -max(known, default=0.0),
    )
