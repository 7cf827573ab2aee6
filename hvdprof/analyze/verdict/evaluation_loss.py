"""What a verdict on training steps says of evaluations, whose time is in none of them.

Tested in ``tests/analyze/verdict/test_evaluation_loss.py``.
"""

from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.finding import first_fix, title_inside
from hvdprof.analyze.findings.run_rules.evaluation_rules import EXCLUDED, STRAGGLER
from hvdprof.model.run import Verdict


@dataclass(frozen=True, slots=True)
class EvaluationLoss:
    """Waiting for a straggler in evaluations of a cell.

    Attributes:
        share: The waiting divided by the recorded time.
        steps_share: Training steps divided by the recorded time.
        sentence: ``Largest loss: straggler in the evaluation (rank 1), 65.5 % ...; fix: ...``.
    """

    share: float
    steps_share: float
    sentence: str

    def exceeds(self, share: float) -> bool:
        """Whether it costs the job more than a cause that costs this share of each step."""
        return self.share > share * self.steps_share


def evaluation_loss(findings: pd.DataFrame, cell: pd.Series) -> EvaluationLoss | None:
    """The straggler in evaluations of a cell; None where the findings name none.

    Args:
        findings: FINDINGS of the run.
        cell: A row of SCALING.
    """
    of_cell = _of_cell(findings, str(cell["model"]), int(cell["np"]), str(cell["engine"]))
    straggler = of_cell[of_cell["id"] == STRAGGLER]
    if straggler.empty:
        return None
    row = straggler.iloc[0]
    share = float(row["job_share"])
    return EvaluationLoss(
        share=share,
        steps_share=1 - _excluded(of_cell),
        sentence=(
            f"Largest loss: {title_inside(str(row['title']))}, {units.percent(share)} of the "
            f"recorded time; fix: {first_fix(str(row['action']))}."
        ),
    )


def evaluation_caveat(findings: pd.DataFrame, answer: Verdict) -> str:
    """``Evaluation takes 66.3 % of the recorded time and is in no ...``, or empty.

    Args:
        findings: FINDINGS of the run.
        answer: The verdict on one of its cells.
    """
    share = _excluded(_of_cell(findings, answer.model, answer.np, answer.engine))
    if not share:
        return ""
    return (
        f"Evaluation takes {units.percent(share)} of the recorded time and is in no rate or step "
        "time: the whole job is slower."
    )


def _of_cell(findings: pd.DataFrame, model: str, size: int, engine: str) -> pd.DataFrame:
    is_own = (findings["model"] == model) & (findings["np"] == size).fillna(False)
    return findings[is_own & (findings["engine"] == engine)]


def _excluded(of_cell: pd.DataFrame) -> float:
    return float(of_cell.loc[of_cell["id"] == EXCLUDED, "job_share"].sum())
