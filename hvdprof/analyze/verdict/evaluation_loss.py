"""What a verdict on training steps says of evaluations, whose time is in none of them."""

import pandas as pd

from hvdprof import units
from hvdprof.model.job_losses import job_losses
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.run import Sentence, Verdict


def loss_beyond_steps(
    findings: pd.DataFrame, cell: pd.Series, step_share: float
) -> Sentence | None:
    """``Largest loss: straggler in the evaluation (rank 1), 65.5 % ...; fix: ...``, or None.

    Args:
        findings: FINDINGS of the run.
        cell: A row of SCALING.
        step_share: The share of a training step of the largest loss in the steps, NaN for none. The
            result is None where that costs the job more.
    """
    losses = job_losses(findings, str(cell["model"]), int(cell["np"]), str(cell["engine"]))
    largest = losses.larger_beyond(step_share)
    if largest is None:
        return None
    what = f"Largest loss: {largest.phrase}, {units.percent(largest.share)} of the recorded time"
    return Sentence(f"{what}; fix: {largest.fix}.", f"{what}.")


def evaluation_caveat(findings: pd.DataFrame, answer: Verdict) -> tuple[Note, ...]:
    """``Evaluation takes 66.3 % of the recorded time and is in no ...``, or none.

    Args:
        findings: FINDINGS of the run.
        answer: The verdict on one of its cells.
    """
    share = job_losses(findings, answer.model, answer.np, answer.engine).outside
    if not share:
        return ()
    text = (
        f"Evaluation takes {units.percent(share)} of the recorded time and is in no rate or step "
        "time: the whole job is slower."
    )
    return (Note(NoteCode.EVALUATION, text),)
