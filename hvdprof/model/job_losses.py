"""What the findings on a cell cost its whole job: training steps, and what lies outside them.

Verdict, tiles and the order of findings take it from here. A share of a training step is no share
of the job where evaluations take a part of it.
"""

import math
from dataclasses import dataclass

import pandas as pd

EVALUATION_EXCLUDED = "evaluation-excluded"
"""The finding that holds the share of the recorded time outside the training steps."""


def share_of_job(step_share: float, outside: float) -> float:
    """A share of the training steps as a share of the recorded time; NaN where unknown."""
    return step_share * (1 - outside)


@dataclass(frozen=True, slots=True)
class LossCost:
    """What the largest loss of a verdict costs, in the currency of the price.

    Attributes:
        price: Per device and hour.
        device: ``GPU``, or ``rank`` where ranks compute on none.
        num_devices: Those of the job.
        per_hour: The whole job per hour.
        loss_per_hour: The loss per hour.
        loss_per_hour_low: Lower end of its 95 % interval; NaN where unknown, as the upper one.
        loss_per_hour_high: Upper end.
        sentence: ``The largest loss costs 4.1 ± 0.2 of 12.30 per hour (6 GPUs)``
    """

    price: float
    device: str
    num_devices: int
    per_hour: float
    loss_per_hour: float
    loss_per_hour_low: float
    loss_per_hour_high: float
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class JobLoss:
    """A finding on a cell; shares are of the recorded time of its job.

    Attributes:
        title: The title of the finding.
        phrase: The same inside a sentence.
        fix: The first step to fix it, a clause.
        share: What it costs; NaN where unknown.
        gain: Upper bound of what a fix saves; NaN where unknown.
        step_gain: The same as a share of a training step; NaN outside the steps.
    """

    title: str
    phrase: str
    fix: str
    share: float
    gain: float
    step_gain: float


@dataclass(frozen=True, slots=True)
class JobLosses:
    """The losses of a cell.

    Attributes:
        outside: The share of the recorded time outside the training steps; 0 for none.
        of_steps: Losses in the training steps.
        beyond: Losses outside the training steps that have a fix.
    """

    outside: float
    of_steps: tuple[JobLoss, ...]
    beyond: tuple[JobLoss, ...]

    @property
    def largest_gain(self) -> JobLoss | None:
        """The loss whose fix saves most of the job; None where no gain is known."""
        known = [of_step for of_step in (*self.of_steps, *self.beyond) if 0 < of_step.gain < 1]
        return max(known, key=lambda loss: loss.gain, default=None)

    def larger_beyond(self, step_share: float) -> JobLoss | None:
        """The largest loss outside the steps, where it costs more than one in them; else None.

        Args:
            step_share: The cost of the one in the steps, a share of a step; NaN for none.
        """
        largest = max(self.beyond, key=lambda loss: loss.share, default=None)
        if largest is None:
            return None
        is_larger = not largest.share <= share_of_job(step_share, self.outside)
        return largest if is_larger else None


def job_losses(findings: pd.DataFrame, model: str, size: int, engine: str) -> JobLosses:
    """The losses of a cell by the findings on it.

    Args:
        findings: FINDINGS of the run.
        model: The cell's model.
        size: Its number of ranks.
        engine: Its engine.
    """
    # Findings on the whole run have no number of ranks.
    names = findings["np"].fillna(-1), findings["model"], findings["engine"]
    places = zip(*(column.tolist() for column in names), strict=True)
    own = [row for row, place in enumerate(places) if place == (size, model, engine)]
    rows = findings.iloc[own].to_dict("records") if own else []
    outside = sum(float(row["job_share"]) for row in rows if row["id"] == EVALUATION_EXCLUDED)
    of_steps, beyond = [], []
    for row in rows:
        texts = str(row["title"]), str(row["phrase"]), str(row["fix"])
        job_share, gain = float(row["job_share"]), float(row["gain_share"])
        if math.isnan(job_share):
            share = share_of_job(float(row["cost_share"]), outside)
            of_steps.append(JobLoss(*texts, share, share_of_job(gain, outside), gain))
        elif row["id"] != EVALUATION_EXCLUDED:
            beyond.append(JobLoss(*texts, job_share, job_share, math.nan))
    return JobLosses(outside, tuple(of_steps), tuple(beyond))
