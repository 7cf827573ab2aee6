"""How well the simulated loop predicts other settings of Horovod than the measured ones.

``python -m benchmarks.loop_settings RUN...`` predicts the step time of every throughput launch from
each launch of the same model in another run: its own work, and what collectives cost and how long
negotiations and sleeps of the loop take in the trace launches of all other runs. Record the runs
with ``hvdprof bench --np 2 --models emulate:resnet18@0.1,mnist --repeats 1 --no-interleave
--cycle-time-ms C --fusion-threshold-mb F``, one for each C of 1, 5, 25 and F of 0, 64.
"""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.loop_times import loop_times
from hvdprof.analyze.predict.costs.gradient_trace import (
    GradientTrace,
    cycle_marks,
    gradient_trace,
    recorded_gradients,
)
from hvdprof.analyze.predict.horovod_loop import (
    DEFAULT_CYCLE_NS,
    DEFAULT_FUSION_BYTES,
    LoopSettings,
)
from hvdprof.analyze.steps.measured_launches import measured_launches
from hvdprof.analyze.steps.step_work import step_work
from hvdprof.analyze.tune.collective_draws import CollectiveDraws
from hvdprof.analyze.tune.launch_replay import LaunchReplay
from hvdprof.ingest.load import load_run
from hvdprof.model.arrays import Float64s
from hvdprof.model.run import Run
from hvdprof.rundir.manifest import Mode

DISTURBED = 1.06
"""Own work that is longer than in the quietest launch of the model by more than this factor."""

QUICKEST, CLASSES, NUM_DRAWS = 0.25, 12, 100


@dataclass(frozen=True, slots=True)
class Measured:
    """A throughput launch of a run, and the loop and collectives of its trace launches."""

    run: str
    model: str
    settings: LoopSettings
    trace: GradientTrace
    sizes: Float64s
    times: Float64s
    negotiation: Float64s
    wakeup: Float64s

    @property
    def own_ns(self) -> float:
        """Mean own work per step of the slowest rank."""
        return float((self.trace.arrived + self.trace.after).mean(axis=0).max())


@dataclass(frozen=True, slots=True)
class Predicted:
    """A launch predicted from another one, with the relative error of the median step time."""

    target: Measured
    source: Measured
    step_ns: float

    @property
    def error(self) -> float:
        """Predicted minus measured, divided by measured."""
        return self.step_ns / float(np.median(self.target.trace.step_times)) - 1


def measured(run: Run) -> Iterator[Measured]:
    """The throughput launches of a run whose model has a trace launch with marks, too."""
    works = step_work(run.steps, run.events, measured_launches(run).of_job)
    marks, executions = cycle_marks(run.events), run.executions
    options = run.manifest.options
    for row in run.segments.to_dict("records"):
        key = (str(row["pass_id"]), str(row["segment"]))
        cycle_ms, fusion_mb = options["cycle_time_ms"], options["fusion_threshold_mb"]
        loop = LoopSettings(
            cycle_ns=DEFAULT_CYCLE_NS if cycle_ms is None else cycle_ms * 1e6,
            fusion_bytes=DEFAULT_FUSION_BYTES if fusion_mb is None else round(fusion_mb * 2**20),
        )
        gradients = recorded_gradients(key, run.gradients, run.tensor_uses)
        trace = gradient_trace(key, works.get(key), run.arrivals, run.events, gradients)
        traced = [other for other in marks if other[1] == key[1]]
        if row["mode"] != Mode.THROUGHPUT or not isinstance(trace, GradientTrace) or not traced:
            continue
        (of,) = traced[:1]
        own = executions[
            (executions["pass_id"] == of[0]).to_numpy()
            & (executions["segment"] == of[1]).to_numpy()
            & ~executions["warmup"].to_numpy()
            & executions["dur_ns"].notna().to_numpy()
        ].sort_values("start_ns")
        starts = own["start_ns"].to_numpy(dtype=np.float64)
        observed = loop_times(marks[of], starts, loop.cycle_ns)
        yield Measured(
            run.folder.name,
            str(row["model"]),
            loop,
            trace,
            own["size_bytes"].to_numpy(dtype=np.float64),
            own["dur_ns"].to_numpy(dtype=np.float64),
            observed.negotiation_ns,
            observed.wakeup_ns,
        )


def predictions(launches: Sequence[Measured], disturbed: float = DISTURBED) -> Iterator[Predicted]:
    """Every launch predicted from every other run; disturbed launches are left out.

    Args:
        launches: Of any runs.
        disturbed: Own work of a disturbed launch, divided by that of the quietest of its model.
    """
    quietest: dict[str, float] = {}
    for one in launches:
        quietest[one.model] = min(one.own_ns, quietest.get(one.model, np.inf))
    undisturbed = [one for one in launches if one.own_ns <= disturbed * quietest[one.model]]
    for target, source in itertools.product(undisturbed, undisturbed):
        if target.model != source.model or target.run == source.run:
            continue
        others = [one for one in launches if one.model == target.model and one.run != target.run]
        draws = costs(others)
        steps = LaunchReplay(source.trace, draws, 0).step_ns(target.settings)
        yield Predicted(target, source, float(steps.mean()))


def costs(launches: Sequence[Measured]) -> CollectiveDraws:
    """What collectives, negotiations and sleeps cost where no other job is in the way.

    Collectives are a line through the quickest quarter of each class of sizes.
    """
    sizes, times, negotiation, wakeup = (
        np.concatenate([getattr(one, name) for one in launches])
        for name in ("sizes", "times", "negotiation", "wakeup")
    )
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, CLASSES + 1)))
    group = np.clip(np.searchsorted(edges, sizes, side="right") - 1, 0, max(len(edges) - 2, 0))
    present = np.unique(group)
    middle = np.array([np.median(sizes[group == one]) for one in present])
    quick = np.array([np.quantile(times[group == one], QUICKEST) for one in present])
    alpha, beta = float(quick.min()), 0.0
    if len(present) > 1:
        beta, alpha = (float(one) for one in np.polyfit(middle, quick, 1, w=1 / quick))

    def drawn(value: float) -> Float64s:
        return np.full(NUM_DRAWS, max(value, 0.0))

    return CollectiveDraws(
        alpha_ns=drawn(max(alpha, float(quick.min()) / 2)),
        beta_ns_per_byte=drawn(beta),
        residuals_ns=np.zeros(1),
        negotiation_ns=drawn(float(np.median(negotiation))),
        wakeups_ns=np.full(1, float(np.median(wakeup))),
    )


def report(found: Sequence[Predicted]) -> str:
    """One row per model and setting, and one per model over all."""
    lines = ["| model | cycle | threshold | measured | predicted from others | error |"]
    lines.append("|---|---|---|---|---|---|")
    by_setting: dict[tuple[str, float, int], list[Predicted]] = {}
    for one in found:
        loop = one.target.settings
        by_setting.setdefault((one.target.model, loop.cycle_ns, loop.fusion_bytes), []).append(one)
    for (model, cycle_ns, fusion), pairs in sorted(by_setting.items()):
        targets = {pair.target.run: pair.target for pair in pairs}.values()
        at = np.mean([np.median(target.trace.step_times) for target in targets]) / 1e6
        steps = np.array([pair.step_ns for pair in pairs]) / 1e6
        errors = 100 * np.array([pair.error for pair in pairs])
        lines.append(
            f"| {model} | {cycle_ns / 1e6:g} ms | {fusion / 2**20:g} MB | {at:.1f} ms | "
            f"{steps.min():.1f} to {steps.max():.1f} ms | "
            f"{errors.min():+.1f} to {errors.max():+.1f} % |"
        )
    for model in sorted({one.target.model for one in found}):
        errors = 100 * np.abs([one.error for one in found if one.target.model == model])
        lines.append(
            f"{model}: {len(errors)} predictions, median error {np.median(errors):.1f} %, "
            f"90th percentile {np.quantile(errors, 0.9):.1f} %, largest {errors.max():.1f} %"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table of the given runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--disturbed", type=float, default=DISTURBED)
    given = parser.parse_args()
    launches = [
        replace(one, run=str(path)) for path in given.runs for one in measured(load_run([path]))
    ]
    print(report(list(predictions(launches, given.disturbed))))


if __name__ == "__main__":
    main()
