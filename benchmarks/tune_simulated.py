"""How well `hvdprof tune` predicts gains, by simulation.

    python -m benchmarks.tune_simulated [--jobs 100] [--write docs/explain/accuracy.md]

Jobs of random size run through the simulated loop of Horovod with their present setting, and then
with a changed one: the true gain. The predictor sees 40 steps of the first alone, as a run records
them: ready times, payloads and lengths of collectives, waits for the first one of each step, and
the step time. The machine is the model itself, so this tests what is estimated from few steps and
few payloads, and not whether the loop is Horovod's.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.page_section import write_section
from hvdprof.analyze.predict.costs.gradient_trace import Gradients, GradientTrace
from hvdprof.analyze.predict.horovod_loop import LoopSettings, random_phase, simulate_loop
from hvdprof.analyze.tune.collective_draws import CollectiveDraws, collective_draws
from hvdprof.analyze.tune.launch_replay import LaunchReplay
from hvdprof.analyze.tune.predicted_gain import NUM_DRAWS, Replays
from hvdprof.model.arrays import Float64s

MS = 1e6
NUM_STEPS = 40
NUM_RANKS = 2
DEFAULT = LoopSettings()
SECTION = "tune-simulated"


@dataclass(frozen=True, slots=True)
class Change:
    """A present setting, and the one that is tried."""

    name: str
    present: LoopSettings
    changed: LoopSettings


CHANGES: tuple[Change, ...] = (
    Change("cycle 50 ms to 1 ms", replace(DEFAULT, cycle_ns=50 * MS), DEFAULT),
    Change("cycle 10 ms to 1 ms", replace(DEFAULT, cycle_ns=10 * MS), DEFAULT),
    Change("cycle 1 ms to 5 ms", DEFAULT, replace(DEFAULT, cycle_ns=5 * MS)),
    Change("no fusion to 128 MiB", replace(DEFAULT, fusion_bytes=0), DEFAULT),
    Change("fusion 128 MiB to 4 MiB", DEFAULT, replace(DEFAULT, fusion_bytes=4 * 2**20)),
)


@dataclass(slots=True)
class Recorded:
    """What the timeline of a simulated launch holds, one entry per collective."""

    steps: list[int]
    sizes: list[float]
    times: list[float]


def main() -> None:
    """Simulate, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    given = parser.parse_args()
    text = "\n".join(_table(given.jobs))
    if given.write is None:
        print(text)
    else:
        write_section(given.write, SECTION, text)


def _table(num_jobs: int) -> Iterator[str]:
    yield "| change | true gain, 10 to 90 % of jobs | covered | median error | median width |"
    yield "|---|---|---|---|---|"
    for number, change in enumerate(CHANGES):
        rows = np.array([judged(change, seed=1000 * number + one) for one in range(num_jobs)])
        true, low, middle, high = rows.T
        covered = np.mean((low <= true) & (true <= high))
        ends = np.quantile(true, [0.1, 0.9])
        yield (
            f"| {change.name} | {100 * ends[0]:.0f} to {100 * ends[1]:.0f} % | "
            f"{100 * covered:.0f} % | {100 * np.median(np.abs(middle - true)):.1f} points | "
            f"{100 * np.median(high - low):.1f} points |"
        )


def judged(change: Change, seed: int) -> tuple[float, float, float, float]:
    """The true gain of a change in a random job, and the predicted one: low, middle, high.

    Args:
        change: What is changed.
        seed: Of the job.
    """
    rng = np.random.default_rng(seed)
    trace, costs = random_job(rng)
    recorded, times, lags = simulated(trace, costs, change.present, rng)
    _, after, _ = simulated(trace, costs, change.changed, rng)
    trace = replace(trace, step_times=np.diff(times, prepend=0.0))
    draws = collective_draws(_collectives(recorded, lags), change.present.cycle_ns, NUM_DRAWS, rng)
    assert isinstance(draws, CollectiveDraws)
    launch = LaunchReplay(trace, draws, seed).calibrated(change.present)
    replays = Replays((launch,), change.present, 2, (launch.step_ns(change.present),))
    found = replays.gain(lambda one: one.step_ns(change.changed))
    return float(1 - after[-1] / times[-1]), found.low, found.value, found.high


def random_job(rng: np.random.Generator) -> tuple[GradientTrace, CollectiveDraws]:
    """A model and a machine: 5 to 80 gradients, 5 to 60 ms of own work, any latency and bandwidth.

    Args:
        rng: Source of randomness.
    """
    num = int(rng.integers(5, 81))
    own_ms = rng.uniform(5, 60)
    shape = (NUM_STEPS, NUM_RANKS)
    jitter = np.exp(rng.normal(0, 0.05, shape))
    forward, backward = 0.35 * own_ms * MS * jitter, 0.6 * own_ms * MS * jitter
    places = np.cumsum(rng.exponential(1, num))
    sizes = np.maximum(rng.lognormal(10, 2, num), 64).astype(int)
    trace = GradientTrace(
        gradients=Gradients.of_sizes(sizes.tolist()),
        ranks=np.arange(NUM_RANKS),
        steps=np.arange(NUM_STEPS),
        ready=(places / places[-1])[None, :, None] * backward[:, None, :],
        backward_begin=forward,
        arrived=forward + backward,
        after=np.full(shape, 0.05 * own_ms * MS),
        forward=forward,
        backward=backward,
        data=np.zeros(shape),
        optimizer=np.full(shape, 0.05 * own_ms * MS),
        outside=np.zeros(shape),
        step_times=np.zeros(NUM_STEPS),
    )
    alpha = rng.lognormal(np.log(0.2 * MS), 0.8)
    costs = CollectiveDraws(
        alpha_ns=np.array([alpha]),
        beta_ns_per_byte=np.array([rng.lognormal(np.log(1.0), 0.8)]),
        residuals_ns=alpha * rng.lognormal(-2, 1, 200),
        negotiation_ns=np.array([alpha * rng.uniform(0.3, 1)]),
        wakeups_ns=rng.exponential(0.1 * MS, 200),
    )
    return trace, costs


def simulated(
    trace: GradientTrace, costs: CollectiveDraws, settings: LoopSettings, rng: np.random.Generator
) -> tuple[Recorded, Float64s, Float64s]:
    """A launch: its collectives, [steps] the ends of its steps, and waits for first collectives."""
    recorded = Recorded([], [], [])
    end, cycle, ends, lags = np.zeros(NUM_RANKS), None, [], []
    for step in range(NUM_STEPS):
        own = end + trace.backward_begin[step] + trace.ready[step]
        ready = own.max(axis=1)[None, :]
        loop = costs.in_a_step(settings, rng)
        if cycle is None:
            cycle = random_phase(rng, ready, loop)

        def cost_ns(size: Float64s, step: int = step) -> Float64s:
            times = costs.cost_ns(size, rng)
            recorded.steps.append(step)
            recorded.sizes.append(float(size[0]))
            recorded.times.append(float(times[0]))
            return times

        lags.append(_first_lag(ready, loop, cycle))
        done = simulate_loop(
            ready, trace.gradients.size_bytes, loop, cost_ns=cost_ns, cycle_start_ns=cycle
        )
        cycle = done.last_cycle_ns
        end = np.maximum(end + trace.arrived[step], done.end_ns[0]) + trace.after[step]
        ends.append(end.max())
    return recorded, np.array(ends), np.array(lags)


def _first_lag(ready: Float64s, loop: LoopSettings, cycle: Float64s) -> float:
    """From the last gradient of the first collective to its start."""
    first = simulate_loop(
        ready.min(axis=1, keepdims=True),
        [1.0],
        loop,
        cost_ns=np.zeros_like,
        cycle_start_ns=cycle,
    )
    taken = ready[ready <= first.last_cycle_ns[0]]
    return float(first.end_ns[0] - taken.max())


def _collectives(recorded: Recorded, lags: Float64s) -> pd.DataFrame:
    """The columns of COLLECTIVES that the predictor reads."""
    return pd.DataFrame(
        {
            "pass_id": "p",
            "segment": "s",
            "step": recorded.steps,
            "start_ns": np.arange(len(recorded.steps)),
            "size_bytes": recorded.sizes,
            "dur_ns": recorded.times,
            "lag_ns": lags[recorded.steps],
        }
    )


if __name__ == "__main__":
    main()
