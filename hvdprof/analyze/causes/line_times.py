"""How long each line of code takes, per step, and how much longer than on the other ranks.

The sampling thread wakes after exponential gaps, so its samples are a Poisson process: given what
the ranks did, samples are independent, also those of one long step, and the share of samples is
that of time (R. W. Wolff, "Poisson arrivals see time averages", Operations Research 30, 1982). The
intervals are those of what ran; whether it will again is what the tests over steps and launches
say. A call that holds the interpreter's lock delays a sample, which then falls on its line.
"""

import numpy as np
import pandas as pd

from hvdprof.analyze.stats.distributions import incomplete_beta
from hvdprof.analyze.stats.uncertainty import NAN, wilson
from hvdprof.model.arrays import Bools, Float64s
from hvdprof.model.cell_key import LAUNCH, LaunchKey, rows_by_launch
from hvdprof.model.schema import as_text, text_of
from hvdprof.model.tables.line_tables import LEAST_SAMPLES, LINES
from hvdprof.rundir.recording.line_format import MAIN_PROCESS, WORKER_PROCESS

LINE = ["file", "line", "function"]
"""The columns that name a line; ``function`` is the innermost one where none of the user's ran."""

_PLACE = [*LAUNCH, "rank", "process", "phase"]
WINDOW = [*LAUNCH, "rank", "process", "step", "steps"]
_NAMES = (*LAUNCH, "process", "phase", "file", "function", "leaf")

Times = tuple[Float64s, Float64s, Float64s]
"""Values with the lower and the upper ends of their intervals."""


class SampledLines:
    """The samples of a run that count: those of steady steps.

    Attributes:
        lines: LINE_SAMPLES; where none of the user's code ran, ``function`` is the ``leaf``.
        whole: LINE_SAMPLING with ``sampled_ns``, the time of the samples where the recorder knows
            none.
    """

    def __init__(
        self, samples: pd.DataFrame, sampling: pd.DataFrame, first_steps: dict[LaunchKey, int]
    ) -> None:
        """Cut them to the steps that count.

        Args:
            samples: LINE_SAMPLES.
            sampling: LINE_SAMPLING.
            first_steps: The first steady step of each launch; others count from their first one.
        """
        lines = as_text(samples[_counts(samples, first_steps)], _names(samples))
        has_user = (lines["file"] != "").to_numpy()
        named = np.where(has_user, lines["function"], lines["leaf"])
        self.lines = lines.assign(function=named, launch=launch_names(lines))
        whole = as_text(sampling[_counts(sampling, first_steps)], _names(sampling))
        gaps = whole["mean_gap_ns"].to_numpy(dtype=np.float64)
        of_samples = whole["samples"].to_numpy(dtype=np.float64) * gaps
        known = whole["time_ns"].to_numpy(dtype=np.float64)
        self.whole = whole.assign(
            time_ns=np.where(known > 0, known, of_samples),
            sampled_ns=of_samples,
            launch=launch_names(whole),
        )

    def steps(self) -> pd.DataFrame:
        """Steps of the windows by launch, rank and process; a worker has those of its rank."""
        main = self.whole[(self.whole["process"] == MAIN_PROCESS).to_numpy()].drop_duplicates(
            WINDOW
        )
        counted = main.groupby([*LAUNCH, "rank"], sort=False)["steps"].sum().reset_index()
        return pd.concat([counted.assign(process=kind) for kind in (MAIN_PROCESS, WORKER_PROCESS)])


def launch_names(table: pd.DataFrame) -> pd.Series:
    """One name for the launch of each row."""
    return text_of(table["pass_id"]) + "/" + text_of(table["segment"])


def _names(table: pd.DataFrame) -> list[str]:
    return [name for name in _NAMES if name in table.columns]


def _counts(table: pd.DataFrame, first_steps: dict[LaunchKey, int]) -> Bools:
    """Windows most of whose steps are steady."""
    middle = table["step"].to_numpy() + (table["steps"].to_numpy() - 1) / 2
    first = np.zeros(len(table))
    for key, rows in rows_by_launch(table):
        first[rows] = first_steps.get(key, 0)
    return np.asarray((table["step"] >= 0).to_numpy() & (middle >= first))


def line_times(sampled: SampledLines) -> pd.DataFrame:
    """LINES: the share of the samples of a phase, of its time.

    Lines with fewer than five samples have no time: too few samples.

    Args:
        sampled: The samples that count.
    """
    if sampled.lines.empty:
        return LINES.empty()
    lines = by_line(sampled.lines, _PLACE)
    phases = sampled.whole.groupby(_PLACE, sort=False)[["samples", "time_ns"]].sum().reset_index()
    phases = phases.merge(sampled.steps(), on=[*LAUNCH, "rank", "process"])
    of_launch = phases.groupby([*LAUNCH, "process", "phase"], sort=False)
    for name in ("samples", "time_ns"):
        phases[f"all_{name}"] = of_launch[name].transform("sum")
    ranks = sampled.steps().groupby([*LAUNCH, "process"])["steps"].agg(["sum", "size"])
    phases = phases.merge(ranks.reset_index(), on=[*LAUNCH, "process"])
    rows = lines.merge(phases, on=_PLACE, suffixes=("", "_whole"))
    everywhere = rows.groupby([*LAUNCH, "process", "phase", *LINE], sort=False)["samples"]
    of_others = (everywhere.transform("sum") - rows["samples"]).to_numpy(dtype=np.float64)
    names = ("samples", "samples_whole", "time_ns", "steps", "all_samples", "all_time_ns", "sum")
    counts, num, time_ns, steps, all_num, all_ns, all_steps = (
        rows[name].to_numpy(dtype=np.float64) for name in names
    )
    own = times_of_lines(counts, num, time_ns / np.maximum(steps, 1))
    other_ns = (all_ns - time_ns) / np.maximum(all_steps - steps, 1)
    others = times_of_lines(of_others, all_num - num, other_ns)
    low, high = difference_ends(own, others)
    is_known = (rows["samples"] >= LEAST_SAMPLES).to_numpy()
    is_compared = is_known & (rows["size"] > 1).to_numpy()
    found = {
        **dict(zip(("time_ns", "time_low_ns", "time_high_ns"), own, strict=True)),
        "excess_ns": own[0] - others[0],
        "excess_low_ns": low,
        "excess_high_ns": high,
    }
    for name, values in found.items():
        known = is_compared if name.startswith("excess") else is_known
        rows[name] = np.where(known, values, NAN)
    ordered = rows.sort_values([*_PLACE, "samples"], ascending=[True] * len(_PLACE) + [False])
    return LINES.frame(ordered[LINES.column_names])


def by_line(lines: pd.DataFrame, place: list[str]) -> pd.DataFrame:
    """Samples of each line at each place, with the ``leaf`` of most of them."""
    leaves = lines.groupby([*place, *LINE, "leaf"], sort=False)["samples"].sum().reset_index()
    leaves = leaves.sort_values("samples", ascending=False, kind="stable")
    of_lines = leaves.groupby([*place, *LINE], sort=False)
    return of_lines.agg(samples=("samples", "sum"), leaf=("leaf", "first")).reset_index()


def times_of_lines(counts: Float64s, num: Float64s | float, whole: Float64s | float) -> Times:
    """Times of lines with the ends of their 95 % intervals (Wilson); 0 where nothing was sampled.

    Args:
        counts: Samples of each line.
        num: All samples where it is.
        whole: The time that these stand for; its unit is that of the times.
    """
    num = np.broadcast_to(np.maximum(num, 1.0), counts.shape)
    share = counts / num
    low, high = wilson(share, num)
    return share * whole, low * whole, high * whole


def difference_ends(first: Times, second: Times) -> tuple[Float64s, Float64s]:
    """The 95 % interval of the difference of two independent values, each with its interval.

    MOVER (G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures",
    Statistics in Medicine 27, 2008).

    Args:
        first: The values.
        second: What is subtracted.
    """
    (one, low, high), (other, other_low, other_high) = first, second
    difference = one - other
    below = np.sqrt((one - low) ** 2 + (other_high - other) ** 2)
    above = np.sqrt((high - one) ** 2 + (other - other_low) ** 2)
    return np.asarray(difference - below), np.asarray(difference + above)


def chance_of_excess(count: int, other: int, exposure: float, other_exposure: float) -> float:
    """The chance of so many samples or more of a line, were it as long on both sides.

    The conditional test of two Poisson counts (J. Przyborowski and H. Wilenski, Biometrika 31,
    1940): given their sum, the first is binomial.

    Args:
        count: Samples of the line.
        other: Its samples on the side it is held against.
        exposure: Samples that a line of a given time per step yields there, up to a factor.
        other_exposure: The same of the other side.
    """
    whole = exposure + other_exposure
    if count <= 0 or whole <= 0:
        return 1.0
    return incomplete_beta(count, other + 1, exposure / whole) if exposure < whole else 1.0
