"""Tables of a forecast: efficiency at other numbers of ranks, and what limits and widens it."""

from hvdprof.model.cell_key import CELL_COLUMNS
from hvdprof.model.schema import Column, Table

QUANTILES: dict[str, float] = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
"""Suffixes of columns and their quantiles: p5 to p95 is the 90 % band, p25 to p75 the 50 % band."""

_SCENARIO = Column(
    "scenario",
    "str",
    "Network between hosts: measured, as given with `--link`, or a stated speed such as 25Gbit.",
)


def _quantiles(name: str, unit: str, what: str) -> tuple[Column, ...]:
    """Five columns; the lower ends of rates, or upper ends of times, are NaN where open."""
    ordinals = {"p5": "5 %", "p25": "25 %", "p50": "Median", "p75": "75 %", "p95": "95 %"}
    stem, suffix = (name[:-3], "_ns") if unit == "ns" else (name, "")
    return tuple(
        Column(
            f"{stem}_{short}{suffix}",
            "float64",
            f"{ordinals[short]}{'' if short == 'p50' else ' quantile'} of the {what}.",
            unit,
        )
        for short in QUANTILES
    )


FORECAST = Table(
    "forecast",
    "One predicted number of ranks under one network. `np`, `compression` and `batch_size` are "
    "those of the prediction. Where `is_open`, the 5 % quantiles of efficiency and throughput and "
    "the 95 % quantile of the step time are NaN: the band has no known end on that side.",
    (
        *CELL_COLUMNS,
        _SCENARIO,
        Column("num_hosts", "int64", "Hosts."),
        Column("ranks_per_host", "int64", "Ranks on a full host."),
        Column("batch_size", "float64", "Samples per rank and step.", "samples"),
        Column(
            "extrapolation",
            "float64",
            "`np` divided by the largest number of ranks that the fit uses.",
            "ratio",
        ),
        *_quantiles(
            "efficiency", "ratio", "scaling efficiency against the baseline of the forecast"
        ),
        Column(
            "efficiency_mean",
            "float64",
            "Mean of the efficiency over draws; 1 minus the sum of the causes.",
            "ratio",
        ),
        *_quantiles("samples_per_s", "samples/s", "throughput of all ranks"),
        *_quantiles("step_time_ns", "ns", "mean step time"),
        Column("is_open", "bool", "The tail of the jitter is not known: the band is open below."),
        Column(
            "meets_target",
            "float64",
            "Probability that the efficiency reaches the target of the forecast.",
            "ratio",
        ),
        Column(
            "dominating",
            "str",
            "Cause with the largest mean share in `forecast_causes`; empty where no cause costs "
            "0.5 points.",
        ),
        Column(
            "dominating_part",
            "str",
            "For exposed transfer, its largest part, as in `forecast_causes`; else empty.",
        ),
        Column(
            "dominating_probability",
            "float64",
            "Share of draws in which that cause is the largest; NaN without one.",
            "ratio",
        ),
        Column(
            "measured_efficiency",
            "float64",
            "Efficiency that the run itself measured at this size; NaN where it did not.",
            "ratio",
        ),
    ),
)

FORECAST_CAUSES = Table(
    "forecast_causes",
    "Lost time of one predicted size by cause, as means over draws, because only means add up: the "
    "shares of a size sum to 1 minus `efficiency_mean`, the times to the mean step minus that of "
    "the baseline for as many samples. Negative rows are gains. Where few draws have a cause, its "
    "distribution is skewed, and its mean may lie outside its own quantiles.",
    (
        *CELL_COLUMNS,
        _SCENARIO,
        Column("term", "str", "One of `hvdprof.model.causes.FORECAST_TERMS`, in the same words."),
        Column(
            "part",
            "str",
            "Of exposed transfer: bandwidth, latency, negotiation (with Horovod's cycle) or not in "
            "the model (measured beyond the simulation, kept at all sizes); else empty.",
        ),
        Column("time_ns", "float64", "Mean time per step; not a median.", "ns"),
        Column("time_p5_ns", "float64", "5 % quantile over draws.", "ns"),
        Column("time_p95_ns", "float64", "95 % quantile over draws.", "ns"),
        Column(
            "share",
            "float64",
            "Mean over draws of the time divided by the step, not a median: points of efficiency.",
            "ratio",
        ),
        Column("share_p5", "float64", "5 % quantile over draws.", "ratio"),
        Column("share_p95", "float64", "95 % quantile over draws.", "ratio"),
    ),
)

FORECAST_WIDTHS = Table(
    "forecast_widths",
    "How much one input contributes to the width of the band at one size: first-order Sobol index "
    "of the efficiency. The rest up to 1 are interactions.",
    (
        *CELL_COLUMNS,
        _SCENARIO,
        Column("input", "str", "One of `hvdprof.model.results.forecast.INPUTS`."),
        Column(
            "first_order",
            "float64",
            "Share of the variance of the efficiency that disappears, on average, if this input "
            "were known exactly.",
            "ratio",
        ),
        Column("first_order_error", "float64", "Standard error of that share.", "ratio"),
        Column(
            "band_without",
            "float64",
            "Width of the 90 % band of the efficiency with this input at its median.",
            "ratio",
        ),
    ),
)

FORECAST_MEASURE = Table(
    "forecast_measure",
    "One measurement that would narrow the band at the largest predicted size, best first.",
    (
        *CELL_COLUMNS,
        _SCENARIO,
        Column("rank", "int64", "Place in the order of reduction per rank-hour, from 1."),
        Column("measurement", "str", "What to measure next: repeats, steps, ranks or network."),
        Column("measure_np", "int64", "Ranks of the measurement."),
        Column("measure_hosts", "int64", "Hosts of the measurement."),
        Column("duration_s", "float64", "Estimated length.", "s"),
        Column("rank_hours", "float64", "Ranks times the length, of all launches.", "h"),
        Column("band_before", "float64", "Width of the 90 % band of the efficiency now.", "ratio"),
        Column("band_after", "float64", "Expected width after the measurement.", "ratio"),
        Column(
            "reduction_per_rank_hour",
            "float64",
            "`band_before` minus `band_after`, per rank-hour.",
            "ratio/h",
        ),
        Column("command", "str", "What to run; RUN stands for the run directory."),
    ),
)

THROUGHPUT_FORECAST = Table(
    "throughput_forecast",
    "One predicted number of ranks of one series of `throughput`, from its throughputs alone.",
    (
        Column("series", "category", "Name of the series: heading, or tool and model."),
        Column("np", "int64", "Number of ranks."),
        Column("baseline_np", "int64", "Ranks of the baseline, the smallest measured size."),
        Column(
            "extrapolation",
            "float64",
            "`np` divided by the largest measured number of ranks.",
            "ratio",
        ),
        *_quantiles("efficiency", "ratio", "scaling efficiency against the baseline"),
        *_quantiles("samples_per_s", "samples/s", "throughput of all ranks; NaN for other units"),
        Column(
            "meets_target",
            "float64",
            "Probability that the efficiency reaches the target of the forecast.",
            "ratio",
        ),
    ),
)

FORECAST_SCORES = Table(
    "forecast_scores",
    "One predicted size that was measured later, by a run of the same model, engine, compression, "
    "batch and number of hosts.",
    (
        *CELL_COLUMNS,
        _SCENARIO,
        Column("predicted_by", "str", "Run directory that holds the forecast."),
        Column("forecast", "str", "Name of the forecast: the time at which it was made."),
        Column("measured_by", "str", "Run directory that measured the size."),
        Column(
            "extrapolation",
            "float64",
            "`np` divided by the largest number of ranks that the fit used.",
            "ratio",
        ),
        Column("predicted_samples_per_s", "float64", "Median of the forecast.", "samples/s"),
        Column("measured_samples_per_s", "float64", "Measured throughput.", "samples/s"),
        Column(
            "log_error",
            "float64",
            "Logarithm of the measured step time divided by the predicted median: above 0 the job "
            "was slower than predicted.",
        ),
        Column("in_50", "bool", "The measured throughput lies in the 50 % band."),
        Column(
            "in_90",
            "bool",
            "The measured throughput lies in the 90 % band; in an open one, below its upper end.",
        ),
        Column("is_open", "bool", "The 90 % band has no lower end."),
        Column(
            "is_counted",
            "bool",
            "Whether it counts in `forecast_errors`: forecasts for several possible networks, with "
            "an assumed change of the job, and repeated ones do not.",
        ),
    ),
)

_MEDIAN_ERROR = "Median of the absolute error of the step time, relative to the predicted one."

FORECAST_ERRORS = Table(
    "forecast_errors",
    "How wrong earlier forecasts were, by extrapolation. Split conformal quantiles of the absolute "
    "logarithms of the errors; other machines may differ.",
    (
        Column("extrapolation", "str", "Group: up to x2, up to x4, beyond x4."),
        Column("num_scores", "int64", "Counted scores."),
        Column("median_error", "float64", _MEDIAN_ERROR, "ratio"),
        Column("bias", "float64", "Mean of it with sign; above 0 jobs were slower.", "ratio"),
        Column("in_50", "float64", "Share of measurements in the 50 % band.", "ratio"),
        Column(
            "in_90",
            "float64",
            "Share of measurements in the 90 % band, of bands with two ends; NaN without any.",
            "ratio",
        ),
        Column("num_open", "int64", "Scores of 90 % bands without a lower end."),
        Column(
            "open_in_95",
            "float64",
            "Share of these below the upper end, of which 95 % are expected; NaN without any.",
            "ratio",
        ),
        Column(
            "factor_50",
            "float64",
            "Conformal factor: half of the measured step times lie within the predicted median "
            "divided or multiplied by it; NaN without scores.",
            "ratio",
        ),
        Column("factor_90", "float64", "The same for 90 %; NaN for fewer than 9 scores.", "ratio"),
    ),
)

FORECAST_TABLES = (
    FORECAST,
    FORECAST_CAUSES,
    FORECAST_WIDTHS,
    FORECAST_MEASURE,
    THROUGHPUT_FORECAST,
    FORECAST_SCORES,
    FORECAST_ERRORS,
)
