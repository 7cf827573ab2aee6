"""Metrics: for Prometheus as ``/metrics`` or as a file (node_exporter), and OpenTelemetry."""

import hmac
import ipaddress
import os
import secrets
import socket
import socketserver
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hvdprof.errors import UsageError
from hvdprof.live.flat_figures import METRICS, Figure, Metric, figures_of
from hvdprof.live.sinks.fail_open import Sink
from hvdprof.live.snapshot import Snapshot
from hvdprof.rundir.written_file import write_whole

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics.export import MetricReader

TOKEN_VARIABLE = "HVDPROF_METRICS_TOKEN"
TOKEN_FILE = "metrics-token"
_MOST_REQUESTS = 8
_REQUEST_S = 5.0

_Request = socket.socket | tuple[bytes, socket.socket]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

_CLOSE_MS = 1500


class MetricsServer(Sink):
    """``--metrics-port PORT``.

    Args:
        port: 0 for any free one; ``where`` has it.
        host: The address to listen on. Others than loopback ask for a token: that of the variable
            ``HVDPROF_METRICS_TOKEN``, which loopback asks for too, else one that is written.
        folder: Where a new token is written, for Prometheus' ``credentials_file``.
        environment: The variables of the watcher.

    Attributes:
        where: What to scrape, ``http://127.0.0.1:9400/metrics``, and the file of a new token.

    Raises:
        UsageError: The address is not of this machine, or the port is taken.
        StorageError: The token could not be written.
    """

    def __init__(
        self, port: int, host: str, folder: Path, environment: Mapping[str, str] = os.environ
    ) -> None:
        token = environment.get(TOKEN_VARIABLE, "")
        try:
            self._server = _Server(host, port)
        except (OSError, OverflowError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or error
            raise UsageError(
                f"--metrics-port {port} cannot be opened on {host}: {str(reason).rstrip('.')}.",
                hint="Choose a free port, 0 for any, and an address of this machine.",
            ) from error
        bound = self._server.server_address[1]
        self.name = f"--metrics-port {bound}"
        self.where = f"http://{f'[{host}]' if ':' in host else host}:{bound}/metrics"
        address = ipaddress.ip_address(str(self._server.server_address[0]))
        if not token and not address.is_loopback:
            token = secrets.token_urlsafe(32)
            write_whole(folder / TOKEN_FILE, token, mode=0o600)
            self.where += f", bearer token in {folder / TOKEN_FILE}"
        self._server.token = token
        threading.Thread(target=self._server.serve_forever, daemon=True, name="metrics").start()

    def show(self, snapshot: Snapshot) -> None:
        """Answer with these figures from now on."""
        self._server.text = prom_text(figures_of(snapshot)).encode()

    def close(self) -> None:
        """Free the port."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int) -> None:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.address_family = family
        self.text = b""
        self.token = ""
        self._free = threading.BoundedSemaphore(_MOST_REQUESTS)
        super().__init__((str(address[0]), port), _Handler)

    def server_bind(self) -> None:
        # Not that of HTTPServer, which asks the name service for this host's name.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: _Request, client_address: object) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: _Request, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: _Request, client_address: object) -> None:
        """Nothing: a client that goes away is no fault of the watcher."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _REQUEST_S
    server: _Server

    def do_GET(self) -> None:
        token = self.server.token
        given = self.headers.get("Authorization", "")
        if token and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            self._answer(HTTPStatus.UNAUTHORIZED, b"Authorization: Bearer TOKEN is missing.\n")
        elif not token and not _is_own_name(self.headers.get("Host", "")):
            # A page of a hostile site can make a browser ask under a name of its own.
            self._answer(HTTPStatus.FORBIDDEN, b"Ask for localhost or an address.\n")
        elif urlsplit(self.path).path == "/metrics":
            self._answer(HTTPStatus.OK, self.server.text)
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"Only /metrics is here.\n")

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: the terminal belongs to the watcher's screen."""


def _is_own_name(header: str) -> bool:
    try:
        name = urlsplit(f"//{header}").hostname or ""
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


class PromFile(Sink):
    """``--prom FILE``.

    Raises:
        UsageError: The name does not end in ``.prom``, which the collector reads alone.
        StorageError: When the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix != ".prom":
            raise UsageError(
                f"--prom {path} is not read by node_exporter, which reads *.prom alone.",
                hint=f"--prom {path.with_suffix('.prom')}",
            )
        self.name = f"--prom {path}"
        self.where = str(path)
        self._path = path
        self._figures: list[Figure] = []

    def show(self, snapshot: Snapshot) -> None:
        """Write the figures of a window."""
        self._figures = figures_of(snapshot)
        write_whole(self._path, prom_text(self._figures))

    def close(self) -> None:
        """Leave what stays true: node_exporter would export the last step time for ever."""
        if self._figures:
            lasting = [figure for figure in self._figures if figure.metric.stays]
            write_whole(self._path, prom_text(lasting))


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
