"""The options of every measurement, and faults to inject on purpose; light to import."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hvdprof.bench_models.registry import MODELS
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.bench_settings import KnownModel
from hvdprof.launch.plan.compare_options import CompareOptions
from hvdprof.launch.plan.options import (
    OUTPUT,
    WATCH,
    Option,
    RankOptions,
    arguments_of,
    declared,
    default_of,
    option,
)
from hvdprof.launch.plan.predict_options import NetOptions, PredictOptions, SelftestOptions
from hvdprof.launch.plan.run_options import FunctionOptions, KubernetesOptions, RunOptions
from hvdprof.launch.plan.tune_options import TuneOptions
from hvdprof.model.results.selftest import ClockCheck, SelftestCase
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.fault_plan import FAULTS, parse_fault, to_text
from hvdprof.rundir.recording.recorder_codec import from_bytes
from hvdprof.rundir.recording.recorder_format import ClockLine, HeaderLine

MODEL_S = 0.06
MODEL = f"emulate:mnist@{MODEL_S:g}"
AMOUNT_MS = 12.0
NUM_STEPS, NUM_WARMUP = 40, 6
OFFSET_MS, DRIFT_PPM = 5.0, 20.0
_PHASES = ("backward", "forward", "data", "optimizer")


def fault_environment(faults: Sequence[str]) -> dict[str, str]:
    """The environment variable that injects faults into the ranks of a command.

    Args:
        faults: Faults such as ``sleep:phase=backward,rank=1,amount=20ms`` (docs/howto/inject.md).

    Raises:
        UsageError: A fault cannot be understood.
    """
    return {FAULTS: to_text([parse_fault(text) for text in faults])}


def cases_of(num_ranks: int) -> tuple[SelftestCase, ...]:
    """The launches of a self-test, those that matter most first; the last rank has the faults."""
    rank = num_ranks - 1
    amount = f"{AMOUNT_MS:g}ms"
    fault = SelftestCase(name="", rank=rank, amount_ns=AMOUNT_MS * 1e6)
    sleeps = [
        replace(
            fault,
            name=f"{AMOUNT_MS:g} ms in {phase}",
            fault=f"sleep:phase={phase},rank={rank},amount={amount}",
            phase=phase,
        )
        for phase in _PHASES
    ]
    pause = replace(
        fault,
        name=f"{AMOUNT_MS:g} ms between steps",
        fault=f"pause:rank={rank},amount={amount}",
        phase="outside",
    )
    clock = SelftestCase(
        name=f"clock {OFFSET_MS:g} ms off",
        fault=f"clock:rank={rank},offset={OFFSET_MS:g}ms,drift={DRIFT_PPM:g}ppm",
        offset_ns=OFFSET_MS * 1e6,
        drift=DRIFT_PPM * 1e-6,
    )
    clean = SelftestCase(name="no fault")
    return (sleeps[0], clean, clock, *sleeps[1:], pause)


def check_clocks(run: Path, case: SelftestCase, num_ranks: int) -> ClockCheck:
    """The comparisons of clocks in the recorder files of a run directory, held against the truth.

    The true offset is that of the case where a rank shares the boot, and so the clock, of rank 0;
    on other hosts it is unknown.
    """
    bounds: list[int] = []
    errors: list[tuple[float, int]] = []
    for folder in sorted((run / "passes").iterdir()):
        paths = PassPaths(folder)
        first = _header(paths.recorder_file(0))
        boot = first["host"]["boot_id"] if first else None
        for rank in range(1, num_ranks):
            header = _header(paths.recorder_file(rank))
            if header is None:
                continue
            is_off = case.offset_ns != 0 and rank == num_ranks - 1
            offset_ns, drift = (case.offset_ns, case.drift) if is_off else (0.0, 0.0)
            is_known = boot is not None and header["host"]["boot_id"] == boot
            for line in _clocks(paths.recorder_file(rank)):
                bounds.append(line["error_ns"])
                ahead_ns = offset_ns + drift * (line["monotonic_ns"] - header["monotonic_ns"])
                if is_known:
                    errors.append((abs(line["offset_ns"] + ahead_ns), line["error_ns"]))
    return ClockCheck(
        num_compared=len(bounds),
        num_known=len(errors),
        num_within=sum(error <= bound for error, bound in errors),
        largest_bound_ns=float(max(bounds)) if bounds else None,
        largest_error_ns=max(error for error, _ in errors) if errors else None,
    )


def _header(path: Path) -> HeaderLine | None:
    if not path.exists():
        return None
    with path.open("rb") as file:
        for text in file:
            line = from_bytes(text)
            if line["kind"] == "header":
                return line
    return None


def _clocks(path: Path) -> Iterator[ClockLine]:
    with path.open("rb") as file:
        for text in file:
            line = from_bytes(text)
            if line["kind"] == "clock":
                yield line


__all__ = [
    "KNOWN_MODELS",
    "OUTPUT",
    "WATCH",
    "BenchOptions",
    "CompareOptions",
    "FunctionOptions",
    "KubernetesOptions",
    "NetOptions",
    "Option",
    "PredictOptions",
    "RankOptions",
    "RunOptions",
    "SelftestOptions",
    "TuneOptions",
    "arguments_of",
    "declared",
    "default_of",
    "option",
]

KNOWN_MODELS = {
    model.name: KnownModel(
        default_batch_size=model.batch_size,
        default_image_size=model.image_size,
        min_image_size=model.min_image_size,
        fixed_image_size=model.max_image_size is not None,
        num_parameters=model.num_parameters,
    )
    for model in MODELS
}
"""The reference models by name."""
