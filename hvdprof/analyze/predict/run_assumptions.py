"""What a forecast of a run rests on beyond the run, and what the run does not hold.

Tested in ``tests/analyze/predict/test_run_assumptions.py``.
"""

import math
from collections.abc import Iterator

from hvdprof import units
from hvdprof.analyze.predict.forecast_cells import ForecastCells
from hvdprof.analyze.predict.job_inputs import JobInputs
from hvdprof.analyze.predict.measure_command import MeasureCommand
from hvdprof.analyze.predict.network_scenarios import KnownLinks
from hvdprof.model.forecast import Missing, Question


def run_assumptions(job: JobInputs) -> Iterator[str]:
    """One sentence for each assumption on the job."""
    yield (
        "Own work per rank does not depend on the number of ranks, apart from its slowdown while "
        "communicating."
    )
    yield (
        "Added ranks differ from each other as the "
        f"{units.counted(job.spread.num_ranks, 'measured rank')}; so few of them leave wide tails "
        "(Student's t)."
    )
    if job.spread.of_hosts is None:
        yield "Hosts do not differ: ranks of one host alone were measured."
    if job.own.slowdown > 0:
        yield (
            "Compute is slower than on one rank. How much of that communication causes is not "
            "known: any share from 0 to 100 % is drawn, and grows with the overlap."
        )
    if math.isnan(job.own.log_ratio.error):
        yield "No launch was repeated: step times are assumed to vary by 2 %."


def missing_of_run(
    cells: ForecastCells, job: JobInputs, command: MeasureCommand
) -> Iterator[Missing]:
    """The measured sizes and steps that the run lacks."""
    if len(cells.measured_np) == 1:
        yield Missing(
            f"The run measured {cells.measured_np[0]} ranks alone.",
            "efficiencies refer to this size itself",
            command.at([1, cells.measured_np[0]]),
        )
    if math.isnan(job.spread.jitter.tail_index):
        number = units.counted(job.spread.jitter.num_values, "step time")
        yield Missing(
            f"{number} of single ranks are too few to fit the tail of the jitter.",
            "the band is open below where the tail matters",
            command.at([job.num_ranks], "--num-steps 200"),
        )


def missing_inside_hosts(
    question: Question, job: JobInputs, command: MeasureCommand, known: KnownLinks
) -> Iterator[Missing]:
    """The links inside a host, where the question puts several ranks on one."""
    each = question.ranks_per_host or job.ranks_per_host
    if known.intra or question.intra or each == 1:
        return
    yield Missing(
        f"No allreduce between ranks of one host was measured, but {each} ranks per host are "
        "predicted.",
        "the links inside a host are assumptions",
        command.inside(each),
    )
