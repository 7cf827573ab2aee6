"""Figures in Prometheus' text format, version 0.0.4."""

from collections.abc import Iterable
from itertools import groupby

from hvdprof.live.flat_figures import Figure

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def prom_text(figures: Iterable[Figure]) -> str:
    """The lines of figures that are in the order of their metrics, with HELP and TYPE."""
    return "".join(
        line
        for metric, group in groupby(figures, key=lambda figure: figure.metric)
        for line in (
            f"# HELP {metric.name} {metric.help}\n",
            f"# TYPE {metric.name} {metric.kind}\n",
            *(f"{metric.name}{{{_labels(figure)}}} {figure.value!r}\n" for figure in group),
        )
    )


def _labels(figure: Figure) -> str:
    return ",".join(
        f'{name}="{value.translate(_ESCAPES)}"' for name, value in figure.labels.items() if value
    )
