"""Event files, read back by TensorBoard's own reader."""

import json
import ssl
import subprocess
import threading
import urllib.error
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.live.flat_figures import flat_figures
from hvdprof.live.sinks.choose import SinkOptions, sinks_of
from hvdprof.live.sinks.trackers import FOLDER, KubeflowStatus, TensorboardFiles, status_of
from tests.builders.watched_job import event, snapshot

SERVER, STATUS = "KUBEFLOW_TRAINER_SERVER_", "KUBEFLOW_TRAINER_STATUS_"


pytest.importorskip("tensorboard", reason="no TensorBoard (extra tensorboard)")


@pytest.mark.filterwarnings("ignore")
def test_scalars_and_texts_are_read_back(tmp_path):
    sink = TensorboardFiles(tmp_path)
    sink.show(snapshot(step=1, step_s=0.1))
    sink.show(snapshot(step=2, step_s=0.2))
    sink.report(event(text="*rank 3* <b>"))
    sink.close()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(tmp_path / FOLDER))
    read.Reload()
    assert set(read.Tags()["scalars"]) == set(flat_figures(snapshot()))
    steps = read.Scalars("hvdprof/step_seconds")
    assert [(one.step, round(one.value, 6), one.wall_time) for one in steps] == [
        (1, 0.1, 1_795_800_000.25),
        (2, 0.2, 1_795_800_000.25),
    ]
    [text] = read.Tensors("hvdprof/events")
    assert text.step == 118
    assert text.tensor_proto.string_val[0] == b"    *rank 3* <b>"


class _StatusServer(HTTPServer):
    posts: list
    status: int


class _Handler(BaseHTTPRequestHandler):
    server: _StatusServer

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = json.loads(self.rfile.read(length))
        self.server.posts.append(
            (self.headers["Authorization"], self.headers["Content-Type"], body)
        )
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "ca.crt")),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return folder


@contextmanager
def _status_server(certificate, status: int = 200):
    server = _StatusServer(("127.0.0.1", 0), _Handler)
    server.posts, server.status = [], status
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "ca.crt", certificate / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _variables(prefix: str, certificate, server, tmp_path) -> dict[str, str]:
    (tmp_path / "token").write_text("first\n")
    return {
        f"{prefix}URL": f"https://localhost:{server.server_port}/status",
        f"{prefix}CA_CERT": str(certificate / "ca.crt"),
        f"{prefix}TOKEN": str(tmp_path / "token"),
    }


@pytest.mark.parametrize("prefix", [SERVER, STATUS])
def test_figures_are_posted_with_the_token_of_the_moment(certificate, tmp_path, prefix: str):
    with _status_server(certificate) as server:
        sink = KubeflowStatus(_variables(prefix, certificate, server, tmp_path), period_s=0.0)
        sink.show(snapshot())
        (tmp_path / "token").write_text("second")
        sink.report(event())
        sink.show(snapshot(step=130))
        sink.close()
    assert [post[:2] for post in server.posts] == [
        ("Bearer first", "application/json"),
        ("Bearer second", "application/json"),
    ]
    status = server.posts[0][2]["trainerStatus"]
    assert status["lastUpdatedTime"] == "2026-11-27T17:20:00.250000+00:00"
    assert {"name": "hvdprof/step_seconds", "value": "0.1"} in status["metrics"]
    assert {"name": "hvdprof/last_step", "value": "120"} in status["metrics"]
    assert server.posts[1][2] == status_of(snapshot(step=130))


def test_not_every_window_is_posted_but_the_last_one_is(certificate, tmp_path):
    with _status_server(certificate) as server:
        sink = KubeflowStatus(_variables(SERVER, certificate, server, tmp_path), period_s=3600)
        for step in (1, 2, 3):
            sink.show(snapshot(step=step))
        sink.close()
    assert [post[2] for post in server.posts] == [
        status_of(snapshot(step=1)),
        status_of(snapshot(step=3)),
    ]


def test_a_server_that_refuses_is_an_error(certificate, tmp_path):
    with _status_server(certificate, status=403) as server:
        sink = KubeflowStatus(_variables(SERVER, certificate, server, tmp_path))
        with pytest.raises(urllib.error.HTTPError, match="403"):
            sink.show(snapshot())


def test_a_server_of_another_certificate_gets_no_token(certificate, tmp_path):
    with _status_server(certificate) as server:
        variables = _variables(SERVER, certificate, server, tmp_path)
        variables[f"{SERVER}URL"] = f"https://127.0.0.1:{server.server_port}/status"
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            KubeflowStatus(variables).show(snapshot())
    assert server.posts == []


def test_variables_that_are_missing_are_named():
    with pytest.raises(UsageError, match=f"{SERVER}URL, {SERVER}CA_CERT, {SERVER}TOKEN is not"):
        KubeflowStatus({})
    with pytest.raises(UsageError, match=f"--to kubeflow: {STATUS}TOKEN is not set"):
        KubeflowStatus({f"{STATUS}URL": "https://x", f"{STATUS}CA_CERT": "/ca"})


def test_no_token_goes_over_plain_http():
    variables = {f"{SERVER}{name}": "http://x" for name in ("URL", "CA_CERT", "TOKEN")}
    with pytest.raises(UsageError, match="is no https:// address"):
        KubeflowStatus(variables)


def test_a_certificate_that_is_missing_is_an_error_of_the_machine(tmp_path, monkeypatch):
    for name in ("URL", "CA_CERT", "TOKEN"):
        monkeypatch.setenv(f"{SERVER}{name}", "https://x")
    with pytest.raises(EnvironmentNotReadyError, match=r"--to kubeflow cannot be used: .*No such"):
        sinks_of(SinkOptions(tmp_path, to=["kubeflow"]))
