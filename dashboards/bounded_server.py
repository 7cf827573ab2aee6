"""A server that a few hundred slow connections do not stop, with compressed responses.

waitress waits for the headers of a request as long as bytes arrive, and takes no connection more
once its limit is reached: connections that send a byte now and then kept everyone else out.
"""

import gzip
import logging
import socket
import threading
import time
from collections import OrderedDict

from dash import Dash
from flask import Flask, Response, request
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer, create_server

_SMALLEST_BYTES = 1_000
_MOST_CACHED = 128
_KINDS = ("application/json", "application/javascript", "text/javascript", "text/css", "text/html")
# A view is compressed while the browser waits for it, a script once.
_FAST, _SMALL = 3, 6
_FOREVER_S = 31_536_000


def compress(app: Dash) -> None:
    """Compress what browsers accept compressed, and let them keep scripts and styles."""
    cached: OrderedDict[tuple[str, str | None], bytes] = OrderedDict()
    lock = threading.Lock()

    def shrink(response: Response) -> Response:
        if not (
            response.status_code == 200
            and request.method in ("GET", "POST")
            and response.mimetype in _KINDS
            and "Content-Encoding" not in response.headers
            and "gzip" in request.headers.get("Accept-Encoding", "").lower()
        ):
            return response
        # Files are sent as they are read otherwise.
        response.direct_passthrough = False
        file = response.response
        etag = response.headers.get("ETag")
        is_fixed = bool(etag or response.cache_control.max_age)
        key = (request.path, etag) if is_fixed else None
        with lock:
            packed = cached.get(key) if key else None
        if packed is None:
            body = response.get_data()
            if len(body) < _SMALLEST_BYTES:
                return response
            packed = gzip.compress(body, _SMALL if key else _FAST, mtime=0)
        if key:
            with lock:
                cached[key] = packed
                while len(cached) > _MOST_CACHED:
                    cached.popitem(last=False)
        if etag:
            # The compressed bytes are another representation of the same resource.
            response.headers["ETag"] = f"W/{etag.removeprefix('W/')}"
        response.set_data(packed)
        if hasattr(file, "close"):
            file.close()
        response.headers["Content-Encoding"] = "gzip"
        response.headers.add("Vary", "Accept-Encoding")
        # Dash compares with its own tag, and would send plotly.js with each page that is loaded.
        response.make_conditional(request)
        return response

    # Their addresses name the time of their last change.
    app.server.config["SEND_FILE_MAX_AGE_DEFAULT"] = _FOREVER_S
    app.server.after_request(shrink)


NUM_THREADS = 8
"""A browser opens six connections at once."""

MOST_BODY_BYTES = 1 << 20
REQUEST_DEADLINE_S = 10.0
MOST_CONNECTIONS = 256
"""Beyond three quarters of it the oldest connections without a complete request are closed."""

# waitress warns of every request that waits for a thread, which a user cannot act on.
_QUEUE_LOGGER = "waitress.queue"


class _Request(HTTPRequestParser):  # type: ignore[misc]
    """A request that waitress answers with 400 where its address is none, such as `http://[x/`."""

    def parse_header(self, header_plus: bytes) -> None:
        """Take the first line and the headers."""
        try:
            super().parse_header(header_plus)
        except ValueError as error:
            raise ParsingError("Bad URI") from error


class _Channel(HTTPChannel):  # type: ignore[misc]
    """A connection that knows since when it has been without a complete request."""

    parser_class = _Request
    waiting_since = 0.0

    def __init__(self, *args: object, **values: object) -> None:
        super().__init__(*args, **values)
        self.waiting_since = time.time()

    def received(self, data: bytes) -> bool:
        """Take bytes of a request."""
        if self.request is None:
            self.waiting_since = time.time()
        return bool(super().received(data))


def bounded_server(app: Flask, listening: socket.socket) -> TcpWSGIServer:
    """A server of the app on a socket; ``run`` serves until the process is interrupted.

    A request has to be complete within ``REQUEST_DEADLINE_S``, and to be no longer than
    ``MOST_BODY_BYTES``, else its connection is closed, or answered with 413.
    """
    logging.getLogger(_QUEUE_LOGGER).setLevel(logging.ERROR)
    server = create_server(
        app,
        sockets=[listening],
        threads=NUM_THREADS,
        max_request_body_size=MOST_BODY_BYTES,
        connection_limit=MOST_CONNECTIONS,
        cleanup_interval=1,
    )
    server.channel_class = _Channel
    waitress_maintenance = server.maintenance

    def maintenance(now: float) -> None:
        waitress_maintenance(now)
        _close_slow(server, now)

    server.maintenance = maintenance
    return server


def _close_slow(server: TcpWSGIServer, now: float) -> None:
    """Close what has sent a part of a request for too long, and the oldest where many wait."""
    waiting = sorted(
        (
            active_channel
            for active_channel in server.active_channels.values()
            if not active_channel.requests
        ),
        key=lambda idle: idle.waiting_since,
    )
    too_many = len(server.active_channels) - MOST_CONNECTIONS * 3 // 4
    for place, channel in enumerate(waiting):
        is_late = channel.request is not None and now - channel.waiting_since > REQUEST_DEADLINE_S
        if is_late or place < too_many:
            channel.will_close = True
