"""The gain of a candidate, predicted by replaying the present run with the changed setting.

For every draw, the replay gives the step time with the present setting and with the changed one;
both share costs, phases and deviations, so what the replay does not know cancels in part. The rest
is what the replay of the present setting misses of the measured step time: with a weight between 0
and 1 it is added to both, as if it came from outside the changed setting. The interval is that of
all draws.

A replay repeats the computation as it was measured. It says nothing on settings that change the
computation itself, such as threads, and nothing on libraries that the run did not use.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hvdprof import units
from hvdprof.analyze.findings.horovod_cycle import DEFAULT_CYCLE_MS
from hvdprof.analyze.predict.costs.gradient_trace import (
    NoTrace,
    gradient_trace,
    recorded_gradients,
)
from hvdprof.analyze.predict.horovod_loop import LoopSettings, rounded_threshold
from hvdprof.analyze.tune.collective_draws import CollectiveDraws, collective_draws
from hvdprof.analyze.tune.ddp_rules import BUCKET_FLAGS
from hvdprof.analyze.tune.horovod_rules import (
    CACHE,
    CYCLE,
    DEFAULT_FUSION_BYTES,
    FUSION,
)
from hvdprof.analyze.tune.launch_replay import (
    BucketSettings,
    LaunchReplay,
    Settings,
    bucket_draws,
    present_buckets,
)
from hvdprof.analyze.tune.placement_rules import AFFINITY, BINDING, THREADS, WAIT_POLICY
from hvdprof.analyze.tune.script_rules import FP16_FLAGS, PASSES_FLAGS
from hvdprof.analyze.tune.tuned_job import TunedJob
from hvdprof.model.arrays import Float64s
from hvdprof.model.causes import COMPUTE_INFLATION
from hvdprof.model.results.tuning import Candidate, Estimate
from hvdprof.model.tables.run_tables import GRADIENTS
from hvdprof.model.tables.timeline_tables import TENSOR_USES
from hvdprof.rundir.launch_format import BUCKET_CAP, DDP_ARGUMENTS, DEFAULT

NUM_DRAWS = 200
CONFIDENCE = 0.9
"""Of the interval of a predicted gain."""

MODEL_ERROR = 0.005
"""Standard error of any predicted gain, a share of the step: other steps, other launches."""

MOST_LAUNCHES = 3


@dataclass(frozen=True, slots=True)
class Replays:
    """The launches of the present setting, ready to be replayed.

    Attributes:
        launches: At least one.
        present: The settings of what reduces the gradients.
        ranks_per_host: By which Horovod rounds its fusion threshold.
        present_ns: [launches][draws] The replayed step time with them.
    """

    launches: tuple[LaunchReplay, ...]
    present: Settings
    ranks_per_host: int
    present_ns: tuple[Float64s, ...]

    @property
    def error(self) -> float:
        """What the replay of the present setting misses, a share of the measured step time."""
        replayed = float(np.mean([present.mean() for present in self.present_ns]))
        measured = float(np.mean([launch.measured_ns for launch in self.launches]))
        return replayed / measured - 1

    def gain(self, changed: Callable[[LaunchReplay], Float64s]) -> Estimate:
        """The gain with a changed setting.

        Args:
            changed: The step time of a launch with it, [draws].
        """
        rng = np.random.default_rng(self.launches[0].seed)
        found = []
        for launch, present in zip(self.launches, self.present_ns, strict=True):
            after = changed(launch)
            missed = rng.random(len(present)) * (launch.measured_ns - present)
            found.append(1 - np.maximum(after + missed, 0.0) / (present + missed))
        gains = np.concatenate(found)
        gains = gains + rng.normal(0, MODEL_ERROR, len(gains))
        tail = (1 - CONFIDENCE) / 2
        low, middle, high = np.quantile(gains, [tail, 0.5, 1 - tail])
        return Estimate(float(middle), float(low), float(high))


def with_predictions(
    job: TunedJob, candidates: Sequence[Candidate], *, seed: int = 0
) -> tuple[Candidate, ...]:
    """The candidates with the gain that a replay predicts, or why it predicts none.

    Args:
        job: The present setting.
        candidates: Without predictions.
        seed: Of the draws.
    """
    replays = job_replays(job, seed)
    return tuple(_predicted(job, candidate, replays) for candidate in candidates)


def job_replays(job: TunedJob, seed: int = 0) -> Replays | str:
    """The launches of a job, ready to be replayed, or why they cannot be.

    Args:
        job: The present setting.
        seed: Of the draws.
    """
    if not (job.is_horovod or job.is_ddp):
        return "The replay is one of Horovod or DDP, and neither reduces gradients here."
    if job.setting.on_gpus:
        return f"The replay is one of {'DDP' if job.is_ddp else 'Horovod'} on CPUs."
    rng = np.random.default_rng(seed)
    draws: CollectiveDraws | str
    present: Settings | str
    if job.is_ddp:
        present, draws = present_buckets(job), bucket_draws(job, NUM_DRAWS, rng)
    else:
        present = loop = _present_loop(job)
        draws = collective_draws(job.collectives, loop.cycle_ns, NUM_DRAWS, rng)
    if isinstance(present, str):
        return present
    if isinstance(draws, str):
        return f"There is nothing to replay: {draws}."
    launches, reason = [], "no launch of it was recorded"
    for key in job.launches[:MOST_LAUNCHES]:
        run = job.evidence.run
        gradients = recorded_gradients(
            key, job.evidence.table(GRADIENTS.name), job.evidence.table(TENSOR_USES.name)
        )
        found = gradient_trace(key, job.works.get(key), run.arrivals, run.events, gradients)
        if isinstance(found, NoTrace):
            reason = found.reason
        else:
            launches.append(LaunchReplay(found, draws, seed).calibrated(present))
    if not launches:
        return f"There is nothing to replay: {reason}."
    times = tuple(launch.step_ns(present) for launch in launches)
    return Replays(tuple(launches), present, job.ranks_per_host, times)


def _present_loop(job: TunedJob) -> LoopSettings:
    return LoopSettings(
        cycle_ns=_cycle_ns(job.number(CYCLE.variable, DEFAULT_CYCLE_MS)),
        fusion_bytes=rounded_threshold(
            int(job.number(FUSION.variable, DEFAULT_FUSION_BYTES)), job.ranks_per_host
        ),
    )


def _predicted(job: TunedJob, candidate: Candidate, replays: Replays | str) -> Candidate:
    found: Estimate | str = _no_replay(job, candidate)
    by_replay = [_BY_REPLAY[knob] for knob in sorted(candidate.knobs) if knob in _BY_REPLAY]
    if not found and not by_replay:
        raise KeyError(f"no rule says what a replay knows of {candidate.name}")
    if not found:
        found = replays if isinstance(replays, str) else by_replay[0](candidate, replays)
    if isinstance(found, str):
        return replace(candidate, predicted=None, not_predicted=found)
    return replace(candidate, predicted=found, not_predicted="")


def _with_cycle(candidate: Candidate, replays: Replays) -> Estimate | str:
    if isinstance(replays.present, BucketSettings):
        return "DDP has no cycle."
    settings = replace(replays.present, cycle_ns=_cycle_ns(_value(candidate)))
    return replays.gain(lambda launch: launch.step_ns(settings))


def _with_buckets(candidate: Candidate, replays: Replays) -> Estimate | str:
    if not isinstance(replays.present, BucketSettings):
        return "Horovod has no buckets."
    size = None if candidate.environment.get(BUCKET_CAP) == DEFAULT else _value(candidate)
    settings = replace(replays.present, cap_mb=size)
    return replays.gain(lambda launch: launch.step_ns(settings))


def _with_fusion(candidate: Candidate, replays: Replays) -> Estimate | str:
    if isinstance(replays.present, BucketSettings):
        return _with_buckets(candidate, replays)
    in_mb = FUSION.option in candidate.options
    size = _value(candidate) * (FUSION.per_unit if in_mb else 1.0)
    threshold = rounded_threshold(round(size), replays.ranks_per_host)
    settings = replace(replays.present, fusion_bytes=threshold)
    return replays.gain(lambda launch: launch.step_ns(settings))


def _with_fp16(candidate: Candidate, replays: Replays) -> str:
    """An upper bound: the casts are in no recording without fp16."""
    found = replays.gain(
        lambda launch: launch.step_ns(replays.present, launch.trace.gradients.as_fp16())
    )
    return f"At most {units.percent(max(found.high, 0.0))} by half the bytes; casts not counted."


def _with_accumulation(candidate: Candidate, replays: Replays) -> Estimate:
    """Per sample: the other backward passes of an update wait for no rank."""
    factor = _value(candidate)

    def per_pass(launch: LaunchReplay) -> Float64s:
        alone = launch.without_communication_ns()
        return np.asarray((launch.step_ns(replays.present) + (factor - 1) * alone) / factor)

    return replays.gain(per_pass)


_BY_REPLAY: Mapping[str, Callable[[Candidate, Replays], Estimate | str]] = {
    CYCLE.variable: _with_cycle,
    CYCLE.option: _with_cycle,
    FUSION.variable: _with_fusion,
    FUSION.option: _with_fusion,
    BUCKET_CAP: _with_buckets,
    **dict.fromkeys(BUCKET_FLAGS, _with_buckets),
    "compression": _with_fp16,
    **dict.fromkeys(FP16_FLAGS, _with_fp16),
    **dict.fromkeys(PASSES_FLAGS, _with_accumulation),
}
"""What a replay says, by the variable, option or argument that a candidate sets."""

_OF_COMPUTATION = (THREADS.variable, THREADS.option, WAIT_POLICY, AFFINITY, BINDING)


def _no_replay(job: TunedJob, candidate: Candidate) -> str:
    """Why no replay can say anything, with a bound where the waterfall gives one."""
    knobs = candidate.knobs
    if knobs & {*_OF_COMPUTATION}:
        return _of_computation(job)
    if knobs & {CACHE.variable, CACHE.option}:
        waiting = job.exposed_share * (1 - job.executing_share)
        return f"At most {units.percent(waiting)}: negotiation and cycle without computation."
    if knobs & {*_BY_REPLAY}:
        return ""
    if knobs & {*DDP_ARGUMENTS}:
        return f"It changes forward and backward too. {_of_computation(job)}"
    share = units.percent(job.communication_share)
    return f"At most {share}: communication. How long it takes then is in no recording."


def _of_computation(job: TunedJob) -> str:
    slower = job.cause_share(COMPUTE_INFLATION)
    bound = f" The compute slowdown is {units.percent(slower)} of the step." if slower > 0 else ""
    return f"A replay repeats the computation as it was measured.{bound}"


def _cycle_ns(cycle_ms: float) -> float:
    # Horovod counts whole microseconds.
    return int(cycle_ms * 1e3) * 1e3


def _value(candidate: Candidate) -> float:
    """The number that a candidate sets by one variable, option or argument."""
    given = [*candidate.environment.values(), *candidate.options.values(), *candidate.arguments]
    return float(given[-1])
