"""OpenTelemetry metrics over OTLP; where to is said by OpenTelemetry's own variables."""

import os
from functools import partial
from typing import TYPE_CHECKING

from hvdprof.live.flat_figures import METRICS, Figure, Metric, figures_of
from hvdprof.live.sinks.fail_open import Sink
from hvdprof.live.snapshot import Snapshot

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics.export import MetricReader

_CLOSE_MS = 1500


class OtelMetrics(Sink):
    """``--to otel``: one instrument per metric, exported by a thread of the library.

    Args:
        reader: Takes the figures; by default every ``OTEL_METRIC_EXPORT_INTERVAL`` over OTLP.

    Raises:
        ImportError: OpenTelemetry is not installed.
    """

    def __init__(self, reader: "MetricReader | None" = None) -> None:
        from opentelemetry.metrics import Observation
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource

        self.name = "--to otel"
        self.where = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "the default OTLP endpoint")
        self._observation = Observation
        self._figures: list[Figure] = []
        # The user's own variables win.
        named = Resource.create({"service.name": "hvdprof"}).merge(OTELResourceDetector().detect())
        readers = [reader or _otlp_reader()]
        self._provider = MeterProvider(readers, named, shutdown_on_exit=False)
        meter = self._provider.get_meter("hvdprof")
        for metric in METRICS:
            is_gauge = metric.kind == "gauge"
            make = meter.create_observable_gauge if is_gauge else meter.create_observable_counter
            make(metric.name, [partial(self._observed, metric)], metric.unit, metric.help)

    def show(self, snapshot: Snapshot) -> None:
        """Export these figures from now on."""
        self._figures = figures_of(snapshot)

    def close(self) -> None:
        """Export the last figures."""
        self._provider.shutdown(_CLOSE_MS)

    def _observed(self, metric: Metric, options: "CallbackOptions") -> "list[Observation]":
        return [
            self._observation(figure.value, dict(figure.labels))
            for figure in self._figures
            if figure.metric is metric
        ]


def _otlp_reader() -> "MetricReader":
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    if os.environ.get("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", protocol) == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    else:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    return PeriodicExportingMetricReader(OTLPMetricExporter())
