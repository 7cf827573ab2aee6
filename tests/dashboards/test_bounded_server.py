import gzip
import http.client
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from hvdprof.dashboards import bounded_server
from hvdprof.dashboards.app import create_app
from hvdprof.dashboards.run_store import RunStore
from tests.builders.served_dashboard import served

GZIP = {"Accept-Encoding": "gzip, deflate"}
SCRIPT = "/assets/timeline_tool.js"
GRAPH = "/_dash-component-suites/dash/dcc/async-graph.js"


@pytest.fixture
def client(tmp_path):
    return create_app(RunStore([tmp_path])).server.test_client()


@pytest.mark.parametrize("path", ["/", SCRIPT, "/assets/hvdprof.css", "/_dash-layout"])
def test_pages_scripts_and_answers_are_compressed(client, path):
    plain = client.get(path, buffered=True)
    packed = client.get(path, headers=GZIP, buffered=True)
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert int(packed.headers["Content-Length"]) == len(packed.data) < 0.6 * len(plain.data)
    if path != "/":
        assert gzip.decompress(packed.data) == plain.data
    assert "Accept-Encoding" in packed.headers["Vary"]


# Werkzeug leaves the file of an answer without a body to the garbage collection.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_script_is_compressed_once_and_not_sent_again(client, monkeypatch):
    grid = re.search(r"/[^\"]*dash_ag_grid[^\"]*", client.get("/").text)[0]
    client.get(grid, headers=GZIP, buffered=True)
    first = client.get(SCRIPT, headers=GZIP, buffered=True)
    monkeypatch.setattr(gzip, "compress", lambda *_, **__: pytest.fail("compressed again"))
    assert client.get(SCRIPT, headers=GZIP, buffered=True).data == first.data
    # It has no tag, and is named by its version.
    assert client.get(grid, headers=GZIP, buffered=True).headers["Content-Encoding"] == "gzip"
    unchanged = GZIP | {"If-None-Match": first.headers["ETag"]}
    assert client.get(SCRIPT, headers=unchanged).status_code == 304


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", [GRAPH, "/assets/hvdprof.css?m=1"])
def test_what_a_browser_has_is_not_sent_again(client, path):
    first = client.get(path, headers=GZIP, buffered=True)
    unchanged = GZIP | {"If-None-Match": first.headers["ETag"]}
    again = client.get(path, headers=unchanged, buffered=True)
    assert (again.status_code, again.data) == (304, b"")
    # The address of the style sheet names its change.
    assert ((first.cache_control.max_age or 0) > 86_400) == (path != GRAPH)


def test_what_is_short_or_refused_stays_as_it_is(client):
    short = client.get("/timeline-data/view", headers=GZIP)
    assert short.status_code == 404
    assert "Content-Encoding" not in short.headers


pytestmark = pytest.mark.slow
PATIENCE_S = 60


@pytest.fixture
def port(monkeypatch):
    monkeypatch.setattr(bounded_server, "REQUEST_DEADLINE_S", 1.0)
    with served(RunStore([])) as address:
        yield urlsplit(address).port


def status_of(port, method="GET", path="/", body=None, headers=()):
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        asking.request(method, path, body=body, headers=dict(headers))
        return asking.getresponse().status
    finally:
        asking.close()


def drip(port, connections, until):
    """Send a byte of headers to each connection now and then, and open anew what was closed."""
    while not until.is_set():
        for place, one in enumerate(connections):
            try:
                one.sendall(b"a")
            except OSError:
                one.close()
                connections[place] = socket.create_connection(("127.0.0.1", port))
        until.wait(0.2)


def test_connections_that_never_end_their_headers_keep_nobody_out(port):
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(400)]
    until = threading.Event()
    dripping = threading.Thread(target=drip, args=(port, connections, until))
    for one in connections:
        one.sendall(b"GET / HTTP/1.1\r\nX-A: ")
    dripping.start()
    try:
        assert [status_of(port) for _ in range(5)] == [200] * 5
    finally:
        until.set()
        dripping.join(PATIENCE_S)
        for one in connections:
            one.close()


def test_a_request_that_is_late_is_closed(port):
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nX-A: ")
        assert slow.recv(1) == b""


def test_a_body_of_many_megabytes_is_refused_unread(port):
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as greedy:
        greedy.sendall(
            b"POST /_dash-update-component HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 400000000\r\n\r\n"
        )
        assert b"413" in greedy.recv(100)


@pytest.mark.parametrize("uri", ["http://[x/", "http://[::1", "http://[v/?token=t", "http://[x]y/"])
def test_an_address_that_is_none_is_answered_and_not_printed(port, uri, capfd, caplog):
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as odd:
        odd.sendall(f"GET {uri} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert odd.recv(100).startswith(b"HTTP/1.1 400 ")
    assert capfd.readouterr().err == ""
    assert caplog.records == []


def test_two_hundred_requests_at_once_are_answered(port):
    with ThreadPoolExecutor(200) as pool:
        began = time.monotonic()
        found = list(pool.map(lambda _: status_of(port, path="/_dash-layout"), range(200)))
    assert found == [200] * 200
    assert time.monotonic() - began < PATIENCE_S
