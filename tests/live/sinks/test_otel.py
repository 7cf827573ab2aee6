"""OpenTelemetry's own reader, and its exporter against a local collector."""

import math
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from hvdprof.live.sinks.metrics_server import OtelMetrics
from hvdprof.rundir.recording.stall_format import EventKind
from tests.builders.watched_job import snapshot

pytest.importorskip("opentelemetry.sdk", reason="no OpenTelemetry (extra otel)")


def _points(reader) -> dict:
    """By name of the metric: its kind, its unit, and its values by attributes."""
    data = reader.get_metrics_data()
    return {
        metric.name: (
            type(metric.data).__name__,
            metric.unit,
            {tuple(point.attributes.items()): point.value for point in metric.data.data_points},
        )
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_the_newest_figures_are_observed():
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    sink = OtelMetrics(reader)
    sink.show(snapshot(step_s=0.1, step=1))
    sink.show(snapshot(step_s=0.2, samples_per_s=math.nan))
    points = _points(reader)
    job = ("job", "resnet")
    assert points["hvdprof_step_seconds"] == ("Gauge", "s", {(job,): 0.2})
    late = (job, ("rank", "3"), ("host", "node1"), ("phase", "data"))
    assert points["hvdprof_lateness_seconds"][2][late] == 0.02
    kind, unit, values = points["hvdprof_events_total"]
    assert (kind, unit) == ("Sum", "{event}")
    assert values[(job, ("kind", "straggler"))] == 1
    assert len(values) == len(EventKind)
    assert "hvdprof_samples_per_second" not in points
    sink.close()


def test_the_last_figures_are_exported_over_otlp(monkeypatch):
    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    bodies = []
    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine")
    try:
        sink = OtelMetrics()
        sink.show(snapshot())
        sink.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert sink.where == address
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

    [(path, body)] = bodies
    assert path == "/v1/metrics"
    request = metrics_service_pb2.ExportMetricsServiceRequest.FromString(body)
    [resource] = request.resource_metrics
    attributes = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
    assert attributes["service.name"] == "mine"
    names = {metric.name for scope in resource.scope_metrics for metric in scope.metrics}
    assert {"hvdprof_step_seconds", "hvdprof_events_total"} <= names
