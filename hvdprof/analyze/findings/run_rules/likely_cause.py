"""What a rule on exposed communication says.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

from dataclasses import dataclass

from hvdprof.analyze.findings.advice import Advice


@dataclass(frozen=True, slots=True)
class Likely:
    """What is likely behind exposed communication: rule, title, reason, action, more evidence."""

    id: str
    title: str
    why: str
    action: Advice
    evidence: str = ""
