"""What a replay of DDP needs: the present buckets, and what an allreduce costs.

Tested in ``tests/analyze/tune/test_ddp_costs.py``.
"""

import numpy as np
import pandas as pd

from hvdprof.analyze.tune.collective_draws import LEAST_EXECUTIONS, CollectiveDraws, draws_of_times
from hvdprof.analyze.tune.ddp_rules import given_cap
from hvdprof.analyze.tune.launch_replay import BucketSettings
from hvdprof.analyze.tune.proposal import Untried
from hvdprof.analyze.tune.tuned_job import TunedJob
from hvdprof.model.arrays import Float64s
from hvdprof.model.tables.run_tables import GRADIENTS


def present_buckets(job: TunedJob) -> BucketSettings | str:
    """The buckets of the present setting, or why they are unknown."""
    given = given_cap(job)
    if isinstance(given, Untried):
        return given.reason
    gradients = _gradients(job)
    compressed = gradients["sent_bytes"] != gradients["size_bytes"]
    if compressed.any():
        return "A communication hook changes what is sent, and the replay knows no cost of it."
    facts = job.evidence.run.ddp
    if facts is None or not facts.find_unused_parameters or facts.static_graph:
        return BucketSettings(given[0])
    # With a search for unused parameters DDP keeps the order in which they were registered.
    return BucketSettings(given[0], tuple(gradients["tensor"].astype(str))[::-1])


def bucket_draws(job: TunedJob, num_draws: int, rng: np.random.Generator) -> CollectiveDraws | str:
    """The costs of allreduces between the ranks of a job, or why they are unknown.

    Those of a script were measured before its training, by the launch with a trace. Reference
    models record their buckets.

    Args:
        job: The job.
        num_draws: The number of draws.
        rng: Source of randomness.
    """
    facts = job.evidence.run.ddp
    if facts is not None and len(facts.allreduces) >= LEAST_EXECUTIONS:
        sizes, times = np.asarray(facts.allreduces, dtype=np.float64).T
        return draws_of_times(sizes, times, num_draws, rng)
    known = job.collectives[job.collectives["size_bytes"].notna()]
    if len(known) >= LEAST_EXECUTIONS:
        sizes = known["size_bytes"].to_numpy(dtype=np.float64)
        return draws_of_times(sizes, _service_times(known), num_draws, rng)
    return "no launch with a trace measured an allreduce of its ranks"


def _service_times(collectives: pd.DataFrame) -> Float64s:
    """The time of each bucket without its wait for the buckets before it, ns; at least 1.

    Buckets are in progress together, while the links carry one after the other.
    """
    ordered = collectives.sort_values("start_ns", kind="stable")
    end = ordered["start_ns"] + ordered["dur_ns"].astype("int64")
    keys = [ordered[name] for name in ("pass_id", "segment", "step")]
    before = end.groupby(keys, observed=True).transform(lambda ends: ends.cummax().shift())
    began = np.fmax(ordered["start_ns"].to_numpy(np.float64), before.to_numpy(np.float64))
    times = pd.Series(np.maximum(end.to_numpy(np.float64) - began, 1.0), index=ordered.index)
    return np.asarray(times.loc[collectives.index], dtype=np.float64)


def _gradients(job: TunedJob) -> pd.DataFrame:
    """GRADIENTS of the first of its launches that has any, in the order of the model."""
    table = job.evidence.table(GRADIENTS.name)
    for pass_id, segment in job.launches:
        own = (table["pass_id"] == pass_id) & (table["segment"] == segment)
        if own.any():
            return table[own]
    return table.iloc[:0]
