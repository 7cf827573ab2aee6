"""What every process of a strategy of ``tf.distribute`` does with the plan of a pass."""

import sys

from hvdprof import collect
from hvdprof.bench_models.keras_training import KerasJob, replicas_here
from hvdprof.bench_models.parameter_server import serve_or_coordinate
from hvdprof.rundir.plan import TF_PARAMETER_SERVER, Plan
from hvdprof.units import milliseconds


def run_plan(plan: Plan) -> int:
    """Run the segments of a plan as one process of it; the number of replicas that were joined."""
    if plan.segments[0].engine == TF_PARAMETER_SERVER:
        job: KerasJob = serve_or_coordinate(plan)
    else:
        job = replicas_here(plan)
    if job.size == plan.size:
        for segment in plan.segments:
            num_steps, mean_ns = job.run(segment)
            if job.rank == 0:
                sys.stdout.write(
                    f"{segment.id}: {segment.model}, np {plan.size}, {num_steps} steps, "
                    f"{milliseconds(mean_ns)} per step\n"
                )
                sys.stdout.flush()
    collect.stop()
    return job.size
