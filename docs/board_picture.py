"""The picture of the Grafana board: what Prometheus answers to the queries of its panels.

Drawn here and not by Grafana. The job is that of ``docs.watch_picture``; its figures are put into a
database of Prometheus (Debian package), which is then asked as Grafana asks it.

TZ=UTC .venv/bin/python -m docs.board_picture
"""

import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from docs.watch_picture import job_looks
from hvdprof.api.live import Look
from hvdprof.live.flat_figures import METRICS, figures_of
from tests.builders.free_ports import free_ports

BOARD = Path(__file__).parent / "reference" / "watch_board.json"
PICTURE = Path(__file__).parent / "images" / "watch_board.svg"
COLUMN, ROW, GAP = 40, 26, 8
_TONES = ("#3274d9", "#e0752d", "#56a64b", "#b877d9", "#e02f44", "#8f8f00", "#00a3a3", "#7a4a2b")

_LEGENDS = 4

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """What a query gives under one legend."""

    legend: str
    points: Sequence[Point]


def openmetrics(looks: Sequence[Look]) -> str:
    """The figures of some looks with their times, as ``promtool`` reads them."""
    rows: dict[str, list[str]] = {metric.name: [] for metric in METRICS}
    for look in looks:
        for figure in figures_of(look.snapshot):
            labels = ",".join(f"{key}={json.dumps(value)}" for key, value in figure.labels.items())
            time_s = look.snapshot.time_s
            rows[figure.metric.name].append(
                f"{figure.metric.name}{{{labels}}} {figure.value!r} {time_s:.3f}"
            )
    lines = []
    for metric in METRICS:
        family = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
        lines += [f"# TYPE {family} {metric.kind}", *rows[metric.name]]
    return "\n".join([*lines, "# EOF", ""])


class Prometheus:
    """A Prometheus over some figures, until ``close``."""

    def __init__(self, folder: Path, text: str) -> None:
        (folder / "figures.txt").write_text(text, encoding="utf-8")
        (folder / "prometheus.yml").write_text("global: {}\n", encoding="utf-8")
        data = folder / "data"
        blocks = ("tsdb", "create-blocks-from", "openmetrics", folder / "figures.txt", data)
        subprocess.run(["promtool", *blocks], check=True, stdout=subprocess.DEVNULL)
        [port] = free_ports(1)
        self._address = f"http://127.0.0.1:{port}/api/v1/query_range"
        command = (
            *("prometheus", f"--config.file={folder / 'prometheus.yml'}"),
            *(f"--storage.tsdb.path={data}", "--storage.tsdb.retention.time=100y"),
            f"--web.listen-address=127.0.0.1:{port}",
            # Prometheus notes by itself when a series that it scrapes ends; here it cannot.
            "--query.lookback-delta=3s",
        )
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def ask(self, query: str, begin_s: float, end_s: float) -> list[Any]:
        """The series of a query, once Prometheus is ready."""
        given = urlencode({"query": query, "start": begin_s, "end": end_s, "step": 2})
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{self._address}?{given}", timeout=10) as answer:
                    found: list[Any] = json.load(answer)["data"]["result"]
                    return found
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def answers(
    prometheus: Prometheus, panel: Mapping[str, Any], begin_s: float, end_s: float
) -> list[Series]:
    """What the queries of a panel give."""
    found = []
    for target in panel["targets"]:
        query = target["expr"].replace("$job", ".*")
        for one in prometheus.ask(query, begin_s, end_s):
            points = [(at - begin_s, float(value)) for at, value in one["values"]]
            legend = target.get("legendFormat") or "rank {{rank}} on {{host}}, {{phase}}"
            for name, value in one["metric"].items():
                legend = legend.replace(f"{{{{{name}}}}}", value)
            found.append(Series("all" if "{{" in legend else legend, points))
    return found


def drawn(panel: Mapping[str, Any], series: Sequence[Series], length_s: float) -> Iterator[str]:
    """A panel as SVG."""
    at = panel["gridPos"]
    left, top = COLUMN * at["x"] + GAP, ROW * at["y"] + GAP
    width, height = COLUMN * at["w"] - GAP, ROW * at["h"] - GAP
    unit = panel["fieldConfig"]["defaults"].get("unit", "none")
    yield f'<g transform="translate({left},{top})">'
    yield f'<rect width="{width}" height="{height}" rx="3" fill="#fff" stroke="#d5d8de"/>'
    yield f'<text x="8" y="18" class="title">{escape(panel["title"])}</text>'
    if panel["type"] == "timeseries":
        yield from _lines(series, unit, width, height, length_s)
    elif panel["type"] == "stat":
        value = _number(series[0].points[-1][1], unit) if series else "no data"
        yield f'<text x="{width / 2}" y="{height - 24}" class="stat">{value}</text>'
    else:
        # Grafana asks tables for the present alone.
        present = [one for one in series if one.points[-1][0] > length_s - 4]
        for row, one in enumerate(present):
            value = _number(one.points[-1][1], unit)
            yield f'<text x="8" y="{48 + 18 * row}">{escape(one.legend)}: {value}</text>'
    yield "</g>"


def _lines(
    series: Sequence[Series], unit: str, width: float, height: float, length_s: float
) -> Iterator[str]:
    values = [value for one in series for _, value in one.points]
    low, high = min([0.0, *values]), max([*values, 1e-9])
    x0, x1, y0, y1 = 62, width - 10, height - 52, 30

    def y_of(value: float) -> float:
        return y0 + (y1 - y0) * (value - low) / (high - low)

    for value in (low, high):
        yield f'<text x="{x0 - 6}" y="{y_of(value) + 4}" class="axis">{_number(value, unit)}</text>'
        yield f'<path d="M{x0} {y_of(value):.1f}H{x1}" stroke="#e4e7ec"/>'
    for minute in range(int(length_s // 60) + 1):
        x = x0 + (x1 - x0) * 60 * minute / length_s
        yield f'<text x="{x:.0f}" y="{y0 + 15}" class="time">{minute} min</text>'
    for number, one in enumerate(series):
        tone = _TONES[number % len(_TONES)]
        path = " ".join(
            f"{x0 + (x1 - x0) * at / length_s:.1f} {y_of(value):.1f}" for at, value in one.points
        )
        yield f'<path d="M{path}" fill="none" stroke="{tone}" stroke-width="1.5"/>'
    ordered = sorted(range(len(series)), key=lambda place: -series[place].points[-1][1])
    spans = "".join(
        f'<tspan fill="{_TONES[place % len(_TONES)]}">{escape(series[place].legend)}'
        "&#160;&#160; </tspan>"
        for place in ordered[:_LEGENDS]
    )
    left = len(series) - _LEGENDS
    more = f"<tspan>and {left} more</tspan>" if left > 0 else ""
    yield f'<text x="8" y="{height - 12}" class="legend">{spans}{more}</text>'


def _number(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return f"{1000 * value:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
    return f"{value:.4g}"


def picture(looks: Sequence[Look], folder: Path) -> str:
    """The board over some looks, as SVG."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    shown = [look for look in looks if look.snapshot.step >= 0]
    begin_s, end_s = shown[0].snapshot.time_s, shown[-1].snapshot.time_s
    prometheus = Prometheus(folder, openmetrics(shown))
    try:
        parts = [
            text
            for panel in board["panels"]
            for text in drawn(panel, answers(prometheus, panel, begin_s, end_s), end_s - begin_s)
        ]
    finally:
        prometheus.close()
    width = 24 * COLUMN + GAP
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    style = (
        "text{font:12px sans-serif;fill:#24292e}.title{font-weight:bold}"
        ".stat{font-size:28px;text-anchor:middle;fill:#56a64b}.axis{text-anchor:end}"
        ".time,.legend{font-size:11px}.time{fill:#6b7280}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {ROW * bottom + GAP}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#f4f5f5"/>'
        f"{''.join(parts)}</svg>\n"
    )


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        PICTURE.write_text(picture(job_looks(folder / "resnet"), folder), encoding="utf-8")


if __name__ == "__main__":
    main()
