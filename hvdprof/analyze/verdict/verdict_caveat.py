"""The caveat of a verdict whose numbers are not those of the job alone."""

from hvdprof.analyze.findings.advice import as_sentence
from hvdprof.analyze.steps.cell_setting import cell_setting
from hvdprof.analyze.steps.light_recording import full_command, is_light
from hvdprof.model.run import Run, Verdict


def verdict_caveat(load: str) -> str:
    """``Other processes kept up to 1.7 of 2 cores busy. Measure again ...``, or empty."""
    return f"{load} Measure again without them before acting." if load else ""


def load_sentence(run: Run, answer: Verdict) -> str:
    """``Other processes kept up to 1.7 of 2 cores busy.``, or empty.

    Args:
        run: The run that was measured.
        answer: The verdict on one of its cells.
    """
    if answer.is_too_busy:
        return ""
    cell = {"model": answer.model, "np": answer.np, "engine": answer.engine}
    return as_sentence(cell_setting(run, cell).crowd)


def light_caveat(run: Run) -> str:
    """One sentence, empty where no launch was recorded so."""
    if not is_light(run):
        return ""
    return (
        "Light recording: means over windows of steps, so jitter within a window counts as exposed "
        f"transfer; for single steps, gradients and collectives run `{full_command(run)}`."
    )
