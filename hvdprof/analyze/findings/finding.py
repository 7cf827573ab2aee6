"""What a rule returns, whatever it looks at."""

from dataclasses import dataclass

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.tables.finding_tables import SEVERITIES

SMALLEST_COST = 0.05
"""Nothing is blamed that costs a smaller share of the step."""

WARNING_COST = 0.1
ERROR_COST = 0.2


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of ``model.finding_tables.FINDINGS`` in the making."""

    id: str
    severity: str
    subject: str
    sentence: str
    remedy: str
    confidence: str
    file: str = ""
    line: int | None = None
    evidence: str = ""
    model: str = ""
    np: int | None = None
    engine: str = ""
    cost_ns: float = NAN
    cost_share: float = NAN
    ceiling_share: float = NAN


def severity_of_cost(share: float) -> str:
    """Note below a tenth of the step, warning below a fifth, else error."""
    if share >= ERROR_COST:
        return "error"
    return "warning" if share >= WARNING_COST else "note"


def by_gravity(finding: Finding) -> tuple[int, bool, float]:
    """Sorts errors before warnings before notes, and the costlier first.

    What costs one rank stands last of its severity: the baseline has it too, so it is no reason
    for which the job does not scale.
    """
    cost = finding.cost_share if finding.cost_share == finding.cost_share else 0.0
    return SEVERITIES.index(finding.severity), finding.np == 1, -cost
