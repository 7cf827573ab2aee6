"""What a rule on a run or on NCCL logs returns."""

import math
from dataclasses import dataclass, fields

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.job_losses import share_of_job
from hvdprof.model.tables.finding_tables import FINDINGS, SEVERITIES

SMALLEST_COST = 0.05
"""A loss that costs a smaller share of the step is no finding."""

WARNING_COST = 0.1
ERROR_COST = 0.2


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of ``model.tables.finding_tables.FINDINGS`` in the making.

    ``title`` is a noun phrase as it stands inside a sentence, at most 8 words with ``detail``;
    ``evidence`` holds plain sentences with numbers, ``quote`` is verbatim. ``lead`` is how a
    verdict begins that states it; empty where none does.
    """

    id: str
    severity: str
    subject: str
    title: str
    evidence: str
    action: Advice
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
    cause_id: str = ""
    detail: str = ""
    lead: str = ""
    code_file: str = ""
    code_line: int | None = None
    code_function: str = ""

    def row(self) -> dict[str, object]:
        """The row of FINDINGS."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        del values["detail"]
        head = f"{self.title[0].upper()}{self.title[1:]}"
        return values | {
            "title": f"{head}: {self.detail}" if self.detail else head,
            "phrase": f"{self.title} ({self.detail})" if self.detail else self.title,
            "action": self.action.text,
            "fix": self.action.fix,
            "command": self.action.command,
        }


def by_severity(*frames: pd.DataFrame) -> pd.DataFrame:
    """The rows of several frames of FINDINGS as one, errors before warnings before notes."""
    rows = [row for frame in frames if len(frame) for row in frame.to_dict("records")]
    rows.sort(key=lambda row: SEVERITIES.index(row["severity"]))
    return FINDINGS.frame([{str(name): row[name] for name in row} for row in rows])


def each_once(findings: pd.DataFrame) -> pd.DataFrame:
    """Rows of FINDINGS with those that several files repeat as one, which counts the files."""
    same = ["id", "severity", "title", "evidence", "action"]
    files = findings.groupby(same, sort=False, observed=True, dropna=False)["file"]
    numbers = files.transform("nunique")
    counted = findings.assign(
        evidence=[
            f"{text} {units.counted(number - 1, 'more file')} show{'s' * (number == 2)} the same."
            if number > 1
            else text
            for text, number in zip(findings["evidence"], numbers, strict=True)
        ]
    )
    return FINDINGS.frame(counted[~findings.duplicated(same).to_numpy()])


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
