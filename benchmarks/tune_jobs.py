"""Real tunings of jobs whose best setting is known, and of one that cannot be improved.

    python -m benchmarks.tune_jobs --folder DIR [--only cycle,fusion] [--write PAGE]

Each tuning is one ``hvdprof tune`` on 2 ranks. Three jobs have a bad setting in their environment,
which has to be undone; the fourth sleeps for most of its step. Results are kept in the folder, and
a tuning that is there is not measured again.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.page_section import write_section
from hvdprof.analyze.tune.prediction_score import agrees, measured_gain
from hvdprof.api import load_tuning
from hvdprof.model.results.tuning import Estimate, Tuning
from hvdprof.rundir.layout import TuningPaths

SCRIPT = Path(__file__).parent / "scripts" / "tuned_job.py"
SECTION = "tune"


@dataclass(frozen=True, slots=True)
class Job:
    """A job, and which values of which variable are good; none where nothing pays.

    Attributes:
        name: Its name on the command line.
        what: Its name in the table.
        environment: Set by the user, NAME=VALUE.
        arguments: Of the script.
        variable: That has to be changed.
        good: The values that undo the bad one.
    """

    name: str
    what: str
    environment: tuple[str, ...]
    arguments: tuple[str, ...]
    variable: str = ""
    good: tuple[str, ...] = ()

    def is_solved(self, found: Tuning) -> bool:
        """Whether the tuning names a good value, or nothing where nothing pays."""
        if not self.variable:
            return not found.environment and not found.options
        return found.environment.get(self.variable) in self.good


JOBS: tuple[Job, ...] = (
    Job(
        "cycle",
        "cycle of 50 ms",
        ("HOROVOD_CYCLE_TIME=50", "OMP_NUM_THREADS=1"),
        ("--layers", "20"),
        "HOROVOD_CYCLE_TIME",
        ("0.1", "0.5", "1"),
    ),
    Job(
        "fusion",
        "no fusion, 242 gradients",
        ("HOROVOD_FUSION_THRESHOLD=0", "OMP_NUM_THREADS=1"),
        ("--layers", "120", "--width", "32"),
        "HOROVOD_FUSION_THRESHOLD",
        ("134217728",),
    ),
    Job(
        "threads",
        "8 threads per rank on 2 cores",
        ("OMP_NUM_THREADS=8",),
        ("--layers", "6", "--width", "512", "--batch-size", "128"),
        "OMP_NUM_THREADS",
        ("1",),
    ),
    Job(
        "nothing",
        "sleeps 60 ms per step",
        ("OMP_NUM_THREADS=1",),
        ("--layers", "20", "--wait-ms", "60"),
    ),
)


def main() -> None:
    """Tune what is missing, and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", help="names of jobs, separated by commas")
    parser.add_argument("--budget", default="10m", help="most time for each job")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    names = given.only.split(",") if given.only else [job.name for job in JOBS]
    tunings = {job: tuned(job, given.folder, given.budget) for job in JOBS if job.name in names}
    text = "\n".join([*outcomes(tunings), "", *predictions(tunings)])
    if given.write is None:
        print(text)
    else:
        write_section(given.write, SECTION, text)


def tuned(job: Job, folder: Path, budget: str) -> Tuning:
    """The tuning of a job; measured where it is not there.

    Args:
        job: The job.
        folder: Holds the results.
        budget: The most time.
    """
    runs = folder / job.name
    if not TuningPaths(runs).result.exists():
        variables = [word for one in job.environment for word in ("--env", one)]
        subprocess.run(
            [
                *(sys.executable, "-m", "hvdprof", "tune", "--np", "2", "-q", "--no-net"),
                *("--num-steps", "60", "--budget", budget, *variables),
                *("--runs", str(runs)),
                *("--", sys.executable, str(SCRIPT), *job.arguments),
            ],
            check=True,
        )
    return load_tuning(runs)


def outcomes(tunings: Mapping[Job, Tuning]) -> Iterator[str]:
    """What each tuning found."""
    yield "| job | tried | to set | gain | found | minutes |"
    yield "|---|---|---|---|---|---|"
    for job, found in tunings.items():
        tried = sum(one.num_rounds > 0 for one in found.trials)
        named = [
            f"{name}={value}" for name, value in {**found.environment, **found.options}.items()
        ]
        line = f"`{' '.join([*named, *found.arguments])}`" if found.line else "nothing"
        yield (
            f"| {job.what} | {tried} | {line} | {_text(found.gain)} | "
            f"{'yes' if job.is_solved(found) else 'no'} | {found.elapsed_s / 60:.1f} |"
        )


def predictions(tunings: Mapping[Job, Tuning]) -> Iterator[str]:
    """Predicted gains beside measured ones."""
    yield "| job | setting | predicted gain | measured gain | agree |"
    yield "|---|---|---|---|---|"
    for job, found in tunings.items():
        for trial in found.trials:
            one, gain = trial.candidate.predicted, measured_gain(trial, found.checks)
            if one is None or gain is None:
                continue
            agree = {True: "yes", False: "no", None: "-"}[agrees(one, gain)]
            yield (
                f"| {job.what} | `{trial.candidate.name}` | {_text(one)} | {_text(gain)} | "
                f"{agree} |"
            )


def _text(gain: Estimate | None) -> str:
    if gain is None:
        return "-"
    return f"{100 * gain.value:.0f} % ({100 * gain.low:.0f} to {100 * gain.high:.0f})"


if __name__ == "__main__":
    main()
