"""How far predicted throughputs are from measured ones, beside models that know nothing.

``python -m benchmarks.prediction --runs DIR [DIR ...] --write PAGE`` reads what
`benchmarks/prediction_runs.py` recorded. Every job is fitted on its smallest numbers of ranks
alone, 1 and 2 or 1, 2 and 4, and predicted at each larger one. A cell is one such prediction.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.page_section import write_section
from hvdprof import api
from hvdprof.analyze.predict.empirical import MeasuredRates, fit_empirical, with_measurement_error
from hvdprof.analyze.predict.forecast import forecast
from hvdprof.errors import HvdprofError
from hvdprof.model.cell_key import HOROVOD_ENGINE
from hvdprof.model.results.forecast import Question
from hvdprof.model.run import RunAnalysis
from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest, Mode, Status
from hvdprof.rundir.plan import ModelName
from hvdprof.rundir.written_file import write_whole

FITS = ((1, 2), (1, 2, 4))
FORECAST, EMPIRICAL = "forecast", "throughput alone"
SECTION = "prediction"
SMALL_DIFFERENCE = 0.05
"""Cells whose launches differ by less have a table of their own."""

_LEFT_OUT = ("manifest.json", "resume.json", "passes", "cache", "net.jsonl")
"""The allreduces of the last ran at the largest number of ranks of the sweep, which is predicted;
the first two are written anew."""

_DRAWS, _SEED = 4000, 1
_FORECAST_DRAWS = 800


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One prediction of one method; rates in samples/s, ends of bands NaN where it has none.

    ``repeat_difference`` is that of two launches at the predicted size, divided by their mean; NaN
    where it was launched once.
    """

    job: str
    model: str
    method: str
    fitted: tuple[int, ...]
    size: int
    measured: float
    predicted: float
    low50: float = float("nan")
    high50: float = float("nan")
    low90: float = float("nan")
    high90: float = float("nan")
    repeat_difference: float = float("nan")

    @property
    def ratio(self) -> int:
        """Predicted divided by the largest fitted number of ranks."""
        return self.size // self.fitted[-1]

    @property
    def error(self) -> float:
        """Predicted divided by measured throughput, minus 1."""
        return self.predicted / self.measured - 1

    @property
    def place(self) -> tuple[str, str, tuple[int, ...], int]:
        """What is predicted from what: job, model, fitted and predicted numbers of ranks."""
        return self.job, self.model, self.fitted, self.size

    def covers(self, share: int) -> bool | None:
        """Whether a band of 50 or 90 % holds the measured rate; None without two ends."""
        low, high = (self.low50, self.high50) if share == 50 else (self.low90, self.high90)
        return None if np.isnan(low) else bool(low <= self.measured <= high)

    def lies_below(self) -> bool | None:
        """Whether the rate is below the upper end of an open 90 % band; None for other bands."""
        is_open = np.isnan(self.low90) and not np.isnan(self.high90)
        return bool(self.measured <= self.high90) if is_open else None


Rates = dict[int, float]
"""Throughput by number of ranks."""


def stays(rates: Rates, size: int) -> float:
    """The efficiency of the largest fitted size holds."""
    largest = max(rates)
    return rates[largest] * size / largest


def log2_growth(rates: Rates, size: int) -> float:
    """The step grows by as much with every doubling: ``T = T1 (1 + b log2 N)``."""
    return _grown(rates, size, np.log2)


def ring_growth(rates: Rates, size: int) -> float:
    """The step grows as what a ring sends: ``T = T1 (1 + b 2 (N-1)/N)``."""
    return _grown(rates, size, lambda number: 2 * (number - 1) / number)


def linear_growth(rates: Rates, size: int) -> float:
    """The step grows with N: ``T = T1 (1 + b (N-1))``."""
    return _grown(rates, size, lambda number: number - 1)


def _grown(rates: Rates, size: int, form: Callable[[float], float]) -> float:
    """Least squares of the relative step times on a form that is 0 for one rank."""
    sizes = sorted(rates)
    steps = np.array([number / rates[number] for number in sizes])
    forms = np.array([float(form(number)) for number in sizes])
    first = steps[0]
    slope = float(forms @ (steps / first - 1)) / float(forms @ forms)
    return float(size / (first * (1 + slope * float(form(size)))))


NAIVE: dict[str, Callable[[Rates, int], float]] = {
    "efficiency stays": stays,
    "T1 (1 + b log2 N)": log2_growth,
    "T1 (1 + b 2(N-1)/N)": ring_growth,
    "T1 (1 + b (N-1))": linear_growth,
}


def cells_of(folders: Sequence[Path]) -> Iterator[Cell]:
    """All predictions of the jobs whose runs are in the folders; later folders take precedence."""
    fits = {path.name.partition("-np1-")[0]: path for path in _runs(folders, "*-np1-2-4")}
    with tempfile.TemporaryDirectory() as scratch:
        for job, folder in sorted(fits.items()):
            measured, differences = _measured(folder)
            for size in (8, 16):
                for run in _runs(folders, f"{job}-np{size}"):
                    found, repeated = _measured(run)
                    differences |= repeated
                    for model, rates in found.items():
                        measured[model] |= rates
            for fitted in FITS:
                if max(max(rates) for rates in measured.values()) <= fitted[-1]:
                    continue
                part = _restricted(folder, fitted, Path(scratch) / f"{job}-{fitted[-1]}")
                analysis = api.analyze_run(api.load_run(part))
                for model, rates in measured.items():
                    for cell in _predictions(job, model, analysis, fitted, rates):
                        difference = differences.get((model, cell.size), float("nan"))
                        yield replace(cell, repeat_difference=difference)


def _runs(folders: Sequence[Path], pattern: str) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in folder.glob(pattern) if Path(f"{path}.done").exists())


def _measured(folder: Path) -> tuple[dict[str, Rates], dict[tuple[str, int], float]]:
    """Throughputs of Horovod by model and number of ranks, and how far repeated launches differ."""
    analysis = api.analyze_run(api.load_run(folder))
    scaling = analysis.scaling
    rates: dict[str, Rates] = {}
    for row in scaling[scaling["engine"] == HOROVOD_ENGINE].to_dict("records"):
        rates.setdefault(str(row["model"]), {})[int(row["np"])] = float(row["samples_per_s"])
    launches = analysis.launches.merge(
        analysis.run.segments, on=["pass_id", "segment"], suffixes=("", "_of_segment")
    )
    differences: dict[tuple[str, int], float] = {}
    is_own = launches["engine"].astype(str) == HOROVOD_ENGINE
    own = launches[is_own & (launches["mode"].astype(str) == Mode.THROUGHPUT)]
    for (model, size), group in own.groupby(["model", "size"], observed=True):
        times = group["step_time_ns"]
        if len(times) > 1:
            spread = float((times.max() - times.min()) / times.mean())
            differences[str(model), int(str(size))] = spread
    return rates, differences


def _restricted(folder: Path, sizes: Sequence[int], target: Path) -> Path:
    """A run directory with the finished passes of some numbers of ranks alone."""
    target.mkdir(parents=True)
    manifest = Manifest.read(folder)
    chosen = [one for one in manifest.passes if one.size in sizes and one.status == Status.DONE]
    replace(manifest, passes=chosen).write(RunPaths(target))
    for path in folder.iterdir():
        if path.name not in _LEFT_OUT and not path.name.startswith("."):
            (target / path.name).symlink_to(path.resolve())
    for one in chosen:
        # Copied: hvdprof does not follow links of passes.
        shutil.copytree(
            RunPaths(folder).of_pass(one.id).folder, RunPaths(target).of_pass(one.id).folder
        )
    return target


def _predictions(
    job: str, model: str, analysis: RunAnalysis, fitted: tuple[int, ...], rates: Rates
) -> Iterator[Cell]:
    known = {size: rates[size] for size in fitted}
    targets = [size for size in sorted(rates) if size > fitted[-1]]
    blank = Cell(
        job=job, model=model, method="", fitted=fitted, size=0, measured=0.0, predicted=0.0
    )
    for size in targets:
        cell = replace(blank, size=size, measured=rates[size])
        for name, predict in NAIVE.items():
            yield replace(cell, method=name, predicted=predict(known, size))
        yield _empirical(cell, known)
    if targets:
        yield from _forecasts(blank, analysis, {size: rates[size] for size in targets})


def _empirical(cell: Cell, known: Rates) -> Cell:
    sizes = tuple(sorted(known))
    fit = fit_empirical(MeasuredRates(sizes, tuple((known[size],) for size in sizes)))
    rng = np.random.default_rng(_SEED)
    times = with_measurement_error(fit.draws([cell.size], _DRAWS, rng), fit.error, rng)
    ends = np.quantile(cell.size / times[:, 0], [0.05, 0.25, 0.5, 0.75, 0.95])
    low90, low50, middle, high50, high90 = (float(end) for end in ends)
    return replace(
        cell,
        method=EMPIRICAL,
        predicted=middle,
        low50=low50,
        high50=high50,
        low90=low90,
        high90=high90,
    )


def _forecasts(blank: Cell, analysis: RunAnalysis, measured: Rates) -> Iterator[Cell]:
    question = Question(
        sizes=tuple(measured), model=blank.model, ranks_per_host=1, num_draws=_FORECAST_DRAWS
    )
    try:
        found = forecast(analysis, question)
    except HvdprofError as error:
        print(f"{blank.job} {blank.model} {blank.fitted}: {error}", file=sys.stderr)
        return
    for row in found.rows.to_dict("records"):
        yield replace(
            blank,
            method=FORECAST,
            size=int(row["np"]),
            measured=measured[int(row["np"])],
            predicted=float(row["samples_per_s_p50"]),
            low50=float(row["samples_per_s_p25"]),
            high50=float(row["samples_per_s_p75"]),
            low90=float(row["samples_per_s_p5"]),
            high90=float(row["samples_per_s_p95"]),
        )


def table(cells: Sequence[Cell]) -> str:
    """The Markdown table: a row per extrapolation ratio and method."""
    lines = ["| " + " | ".join(_HEAD) + " |", "|---" * len(_HEAD) + "|"]
    for ratio in sorted({cell.ratio for cell in cells}):
        own = [cell for cell in cells if cell.ratio == ratio]
        for method in (FORECAST, EMPIRICAL, *NAIVE):
            found = [cell for cell in own if cell.method == method]
            if found:
                texts = [f"x{ratio}", method, *_summary(found), _closer(method, own)]
                lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines)


_HEAD = (
    "predicted",
    "model",
    "cells",
    "median error",
    "90 % of errors below",
    "bias",
    "in 50 % band",
    "in 90 % band",
    "closer than the forecast",
)


def _summary(cells: Sequence[Cell]) -> list[str]:
    errors = 100 * np.array([cell.error for cell in cells])
    sizes = np.abs(errors)
    return [
        str(len(cells)),
        f"{np.median(sizes):.1f} %",
        f"{np.quantile(sizes, 0.9):.1f} %",
        f"{errors.mean():+.1f} %",
        _covered(cells, 50),
        _covered(cells, 90),
    ]


def _covered(cells: Sequence[Cell], share: int) -> str:
    """How many bands with two ends hold the measurement, and of open ones of 90 % how many do."""
    held = [covered for cell in cells if (covered := cell.covers(share)) is not None]
    opened = [below for cell in cells if (below := cell.lies_below()) is not None]
    texts = [f"{sum(held)} of {len(held)}"] if held else []
    if share == 90 and opened:
        texts.append(f"open: {sum(opened)} of {len(opened)}")
    return ", ".join(texts)


def _closer(method: str, cells: Sequence[Cell]) -> str:
    """In how many cells a method is closer to the measurement than the forecast."""
    errors = {
        one: {cell.place: abs(cell.error) for cell in cells if cell.method == one}
        for one in (method, FORECAST)
    }
    both = errors[method].keys() & errors[FORECAST].keys()
    if method == FORECAST or not both:
        return ""
    closer = sum(errors[method][place] < errors[FORECAST][place] for place in both)
    return f"{closer} of {len(both)}"


def repeat_differences(cells: Sequence[Cell]) -> str:
    """The noise floor: a row per job and predicted size, a column per model."""
    # Scale models of other dilations have other names.
    every = {
        (cell.job, cell.size, ModelName.parse(cell.model).reference): cell.repeat_difference
        for cell in cells
    }
    models = sorted({model for _, _, model in every})
    lines = [
        "| job | ranks | " + " | ".join(models) + " |",
        "|---" * (len(models) + 2) + "|",
    ]
    for job, size in sorted({(job, size) for job, size, _ in every}):
        found = [every.get((job, size, model), float("nan")) for model in models]
        texts = ["one launch" if np.isnan(one) else f"{100 * one:.1f} %" for one in found]
        lines.append(f"| {job} | {size} | " + " | ".join(texts) + " |")
    known = [one for one in every.values() if not np.isnan(one)]
    if known:
        lines += ["", f"Median: {100 * np.median(known):.1f} %."]
    return "\n".join(lines)


def page_text(cells: Sequence[Cell]) -> str:
    """Errors of all cells and by controller, of those that repeat well, and the noise floor."""
    controllers = sorted({cell.job.partition("-")[0] for cell in cells})
    parts = [f"**All**, {_counted(cells)}:", table(cells)] if len(controllers) > 1 else []
    for controller in controllers:
        own = [cell for cell in cells if cell.job.startswith(controller)]
        parts += [f"**{controller}**, {_counted(own)}:", table(own)]
        noisy = [cell for cell in own if cell.repeat_difference >= SMALL_DIFFERENCE]
        if noisy:
            rest = [cell for cell in own if cell not in noisy]
            less = f"without launches that differ by {100 * SMALL_DIFFERENCE:g} % or more"
            parts += [f"**{controller}**, {less}, {_counted(rest)}:", table(rest)]
    floor = "**Noise floor**: difference of two launches of the predicted size, of their mean:"
    return "\n\n".join([*parts, floor, repeat_differences(cells)])


def _counted(cells: Sequence[Cell]) -> str:
    number = len({cell.place for cell in cells})
    return f"{number} cell" if number == 1 else f"{number} cells"


def main() -> None:
    """Predict, print the tables and write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, nargs="+", default=[])
    parser.add_argument("--cells", type=Path, help="file that keeps every cell, as JSON")
    parser.add_argument("--largest", type=int, default=2**31, help="leave larger sizes out")
    parser.add_argument("--write", type=Path, nargs="*", default=[], help="pages to write into")
    parser.add_argument("--section", default=SECTION, help="of these pages")
    options = parser.parse_args()
    if options.cells and options.cells.exists():
        rows = json.loads(options.cells.read_text(encoding="utf-8"))
        every = [Cell(**{**row, "fitted": tuple(row["fitted"])}) for row in rows]
    else:
        every = list(cells_of(options.runs))
        if options.cells:
            write_whole(options.cells, json.dumps([asdict(cell) for cell in every], indent=1))
    cells = [cell for cell in every if cell.size <= options.largest]
    text = page_text(cells)
    print(text)
    for page in options.write:
        write_section(page, options.section, text)


if __name__ == "__main__":
    main()
