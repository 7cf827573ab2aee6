"""Finished tunings with known numbers, built without any launch."""

import math
from dataclasses import replace

from hvdprof.model.results.tuning import (
    Candidate,
    Check,
    Estimate,
    PredictionScore,
    Trial,
    TrialOutcome,
    Tuning,
)


def tuning() -> Tuning:
    """Two settings that pay together, one that is worse, one that crashes, and one not tried."""
    cycle = Candidate(
        name="HOROVOD_CYCLE_TIME=1",
        environment={"HOROVOD_CYCLE_TIME": "1"},
        why="The cycle is set to 50 ms; Horovod's default is 1 ms.",
        finding="cycle-too-long",
        predicted=Estimate(0.45, 0.4, 0.5),
    )
    threads = Candidate(
        name="OMP_NUM_THREADS=1",
        environment={"OMP_NUM_THREADS": "1"},
        why="2 ranks with 2 threads each on 2 cores: more threads than cores.",
        not_predicted="A replay repeats the computation as it was measured.",
    )
    gloo = Candidate(name="controller gloo", options={"controller": "gloo"})
    crash = Candidate(name="NCCL_ALGO=x", environment={"NCCL_ALGO": "x"}, why="--try asks for it.")
    fp16 = Candidate(name="--fp16", arguments=("--fp16",), changes_numerics=True)
    return Tuning(
        sentence="Set HOROVOD_CYCLE_TIME=1 OMP_NUM_THREADS=1: step time -52.1 % (95 % CI -54.0 % "
        "to -50.2 %), throughput +108.8 %.",
        caveat="NCCL_ALGO=x failed.",
        status="done",
        command=("python", "train.py", "--name", "a b"),
        num_ranks=2,
        present="train on 2 ranks: 1,360 ± 50 samples/s.",
        environment={"HOROVOD_CYCLE_TIME": "1", "OMP_NUM_THREADS": "1"},
        options={},
        arguments=(),
        line="HOROVOD_CYCLE_TIME=1 OMP_NUM_THREADS=1 hvdprof run --np 2 "
        "-- python train.py --name 'a b'",
        gain=Estimate(0.521, 0.502, 0.54),
        beyond=None,
        margin=0.02,
        confidence=0.95,
        trials=(
            Trial(
                candidate=cycle,
                outcome=TrialOutcome.CONFIRMED,
                gain=Estimate(0.43, 0.38, 0.478),
                num_rounds=4,
            ),
            Trial(
                candidate=threads,
                outcome=TrialOutcome.CONFIRMED,
                gain=Estimate(0.12, math.nan, math.nan),
                num_rounds=4,
            ),
            Trial(
                candidate=gloo,
                outcome=TrialOutcome.WORSE,
                gain=Estimate(-3.5, -4.0, -3.0),
                num_rounds=1,
            ),
            Trial(candidate=crash, outcome=TrialOutcome.FAILED, reason="rank 1 exited with code 3"),
            Trial(
                candidate=fp16,
                outcome=TrialOutcome.NOT_TRIED,
                reason="it changes the arithmetic; --allow-numerics tries it",
            ),
        ),
        checks=(
            Check(
                names=(cycle.name,),
                gain=Estimate(0.44, 0.41, 0.468),
                num_repeats=3,
                is_confirmed=True,
            ),
            Check(
                names=(cycle.name, threads.name),
                gain=Estimate(0.521, 0.502, 0.54),
                num_repeats=3,
                is_confirmed=True,
            ),
        ),
        score=PredictionScore(
            num_predicted=1,
            num_scored=1,
            num_covered=1,
            median_error=0.02,
            bias=0.02,
            rank_correlation=None,
            sentence="1 of 1 predicted gain agree with the measured interval.",
        ),
        elapsed_s=312.4,
        folder="runs/20261122-181616-tune",
        notes=("cache_capacity: all tensors fit.",),
    )


def nothing_to_gain() -> Tuning:
    """The same job without any gain."""
    return replace(
        tuning(),
        sentence="Nothing to gain beyond 3.1 % of the step time: no gain of 1 setting is beyond "
        "noise.",
        caveat="",
        environment={},
        line="",
        gain=None,
        beyond=0.031,
        trials=(),
        checks=(),
        score=None,
        notes=(),
    )
