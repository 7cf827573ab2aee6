"""Responses compressed with gzip: scripts and pages of several megabytes cross slow networks.

The scripts of Dash and its components never change while the app runs: each is compressed once.
"""

import gzip
import threading
from collections import OrderedDict

from dash import Dash
from flask import Response, request

_SMALLEST_BYTES = 1_000
_MOST_CACHED = 128
_KINDS = ("application/json", "application/javascript", "text/javascript", "text/css", "text/html")
# A view is compressed while the browser waits for it, a script once.
_FAST, _SMALL = 3, 6


def compress(app: Dash) -> None:
    """Compress what browsers accept compressed, in every response of the app.

    Args:
        app: The app.
    """
    cached: OrderedDict[tuple[str, str], bytes] = OrderedDict()
    lock = threading.Lock()

    def shrink(response: Response) -> Response:
        if not _may_shrink(response):
            return response
        # Files are sent as they are read otherwise.
        response.direct_passthrough = False
        file = response.response
        etag = response.headers.get("ETag")
        key = (request.path, etag) if etag else None
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
            # The compressed bytes are another representation of the same resource.
            response.headers["ETag"] = f"W/{str(etag).removeprefix('W/')}"
        response.set_data(packed)
        if hasattr(file, "close"):
            file.close()
        response.headers["Content-Encoding"] = "gzip"
        response.headers.add("Vary", "Accept-Encoding")
        return response

    app.server.after_request(shrink)


def _may_shrink(response: Response) -> bool:
    return (
        response.status_code == 200
        and request.method in ("GET", "POST")
        and response.mimetype in _KINDS
        and "Content-Encoding" not in response.headers
        and "gzip" in request.headers.get("Accept-Encoding", "").lower()
    )
