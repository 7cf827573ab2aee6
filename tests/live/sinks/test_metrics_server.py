"""Who may scrape `/metrics`, and what a real Prometheus makes of it."""

import http.client
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import closing
from urllib.parse import quote, urlsplit

import pytest

from hvdprof.errors import StorageError, UsageError
from hvdprof.live.flat_figures import figures_of
from hvdprof.live.sinks.metrics_server import (
    TOKEN_FILE,
    TOKEN_VARIABLE,
    MetricsServer,
    PromFile,
    prom_text,
)
from tests.builders.free_ports import free_ports
from tests.builders.grafana_board import board_queries
from tests.builders.watched_job import HOSTILE, event, rank_view, snapshot

EXPECTED = """\
# HELP hvdprof_last_step Last step that all ranks have ended.
# TYPE hvdprof_last_step gauge
hvdprof_last_step{job="resnet"} 120.0
"""


@pytest.fixture
def served(tmp_path):
    with closing(MetricsServer(0, "127.0.0.1", tmp_path, {})) as server:
        yield server


def _answer(server: MetricsServer, path: str = "/metrics", **headers: str) -> tuple[int, str]:
    port = urlsplit(server.where.partition(",")[0]).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_the_newest_figures_are_answered(served):
    assert _answer(served) == (200, "")
    served.show(snapshot(step_s=0.1))
    served.show(snapshot(step_s=0.2))
    status, text = _answer(served)
    assert status == 200
    assert 'hvdprof_step_seconds{job="resnet"} 0.2\n' in text


def test_only_metrics_are_there(served):
    assert _answer(served, "/")[0] == 404


@pytest.mark.parametrize("name", ["attacker.example", "attacker.example:80", "[", ""])
def test_a_name_of_another_host_is_refused(served, name: str):
    assert _answer(served, Host=name)[0] == 403


@pytest.mark.parametrize("name", ["localhost", "localhost:9400", "127.0.0.1:1", "[::1]:9400"])
def test_addresses_of_this_host_are_answered(served, name: str):
    assert _answer(served, Host=name)[0] == 200


def test_another_address_asks_for_a_new_token(tmp_path):
    with closing(MetricsServer(0, "0.0.0.0", tmp_path, {})) as server:
        token = (tmp_path / TOKEN_FILE).read_text()
        assert (tmp_path / TOKEN_FILE).stat().st_mode & 0o777 == 0o600
        assert server.where.endswith(f", bearer token in {tmp_path / TOKEN_FILE}")
        assert len(token) >= 32
        assert _answer(server)[0] == 401
        assert _answer(server, Authorization=f"Bearer {token}x")[0] == 401
        assert _answer(server, Authorization=token)[0] == 401
        allowed = _answer(server, Authorization=f"Bearer {token}", Host="node1:9400")
        assert allowed[0] == 200


def test_the_users_own_token_holds_on_loopback_too(tmp_path):
    with closing(MetricsServer(0, "127.0.0.1", tmp_path, {TOKEN_VARIABLE: "geheim-ü"})) as server:
        assert list(tmp_path.iterdir()) == []
        assert _answer(server)[0] == 401
        assert _answer(server, Authorization="Bearer gehei")[0] == 401


def test_a_port_that_is_taken_is_named(served, tmp_path):
    port = urlsplit(served.where).port
    with pytest.raises(UsageError, match=f"--metrics-port {port} cannot be opened on 127.0.0.1"):
        MetricsServer(port, "127.0.0.1", tmp_path, {})
    with pytest.raises(UsageError, match="--metrics-port 70000 cannot be opened"):
        MetricsServer(70_000, "127.0.0.1", tmp_path, {})


def test_a_closed_server_frees_its_port(tmp_path):
    server = MetricsServer(0, "127.0.0.1", tmp_path, {})
    server.close()
    # Bound with SO_REUSEADDR, as a watcher that is started again does.
    MetricsServer(urlsplit(server.where).port, "127.0.0.1", tmp_path, {}).close()


def test_clients_that_send_nothing_do_not_pile_up(served):
    address = ("127.0.0.1", urlsplit(served.where).port)
    silent = [socket.create_connection(address, timeout=10) for _ in range(8)]
    try:
        with socket.create_connection(address, timeout=10) as refused:
            assert refused.recv(1) == b""
    finally:
        for one in silent:
            one.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            assert _answer(served)[0] == 200
            break
        except (http.client.HTTPException, ConnectionError):
            time.sleep(0.05)
    else:
        pytest.fail("the server does not answer after the silent clients have gone")


CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: training
    honor_labels: true
    authorization: {{credentials_file: {token}}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@pytest.mark.install
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus (Debian package)")
def test_a_real_prometheus_scrapes_with_the_token_and_answers_the_board(tmp_path):
    with closing(MetricsServer(0, "0.0.0.0", tmp_path, {})) as server:
        server.show(snapshot(exposed_communication_ratio=0.1))
        target = urlsplit(server.where.partition(",")[0]).port
        (tmp_path / "prometheus.yml").write_text(
            CONFIG.format(token=tmp_path / TOKEN_FILE, port=target)
        )
        [port] = free_ports(1)
        command = [
            "prometheus",
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                found = _queried(port, 'hvdprof_lateness_seconds{rank="3"}')
                # An increase needs two scrapes.
                empty = [query for query in board_queries() if not _queried(port, query)]
            finally:
                process.kill()
                process.wait()
    [series] = found
    assert series["metric"] == {
        "__name__": "hvdprof_lateness_seconds",
        "instance": f"127.0.0.1:{target}",
        "job": "resnet",
        "rank": "3",
        "host": "node1",
        "phase": "data",
    }
    assert series["value"][1] == "0.02"
    assert empty == []


def _queried(port: int, query: str) -> list:
    """The answer of Prometheus once it has scraped; empty after 30 s."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            address = f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}"
            with urllib.request.urlopen(address, timeout=5) as answer:
                if result := json.load(answer)["data"]["result"]:
                    return result
        except OSError:
            pass
        time.sleep(0.3)
    return []


def test_each_window_replaces_the_file(tmp_path):
    sink = PromFile(tmp_path / "node.prom")
    sink.show(snapshot(step_s=0.1))
    first = (tmp_path / "node.prom").stat()
    sink.report(event())
    sink.show(snapshot(step_s=0.2))
    text = (tmp_path / "node.prom").read_text()
    assert 'hvdprof_step_seconds{job="resnet"} 0.2\n' in text
    assert "} 0.1\n" not in text
    assert (tmp_path / "node.prom").stat().st_ino != first.st_ino
    # The collector, another user, may read it.
    assert first.st_mode & 0o044 == 0o044
    assert [path.name for path in tmp_path.iterdir()] == ["node.prom"]


def test_the_last_rates_do_not_stay(tmp_path):
    sink = PromFile(tmp_path / "node.prom")
    sink.show(snapshot(is_over=True))
    sink.close()
    names = {
        line.partition("{")[0]
        for line in (tmp_path / "node.prom").read_text().splitlines()
        if not line.startswith("#")
    }
    assert names == {
        "hvdprof_events_total",
        "hvdprof_job_over",
        "hvdprof_seen_timestamp_seconds",
    }


def test_without_a_window_no_file_is_made(tmp_path):
    PromFile(tmp_path / "node.prom").close()
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_the_collector_does_not_read(tmp_path):
    with pytest.raises(UsageError, match=r"reads \*\.prom alone") as refused:
        PromFile(tmp_path / "node.txt")
    assert refused.value.hint == f"--prom {tmp_path / 'node.prom'}"


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Could not write"):
        PromFile(tmp_path / "file" / "node.prom").show(snapshot())


def test_the_lines_of_a_metric():
    text = prom_text(figures_of(snapshot()))
    assert text.startswith(EXPECTED)
    late = 'hvdprof_lateness_seconds{job="resnet",rank="3",host="node1",phase="data"} 0.02\n'
    assert late in text
    # A label without a value is none.
    assert 'hvdprof_lateness_seconds{job="resnet",rank="0",host="node0"} 0.0\n' in text
    assert "# TYPE hvdprof_events_total counter\n" in text
    assert "NaN" not in text


def test_hostile_names_stay_inside_their_label():
    ranks = [rank_view(0, late_s=0.01, host='x",rank="9"} 1\nhvdprof_fake 1\\')]
    text = prom_text(figures_of(snapshot(job=HOSTILE, ranks=ranks)))
    assert all(line.startswith(("# ", "hvdprof_")) for line in text.splitlines())
    assert "\nhvdprof_fake" not in text
    assert r'host="x\",rank=\"9\"} 1\\x0ahvdprof_fake 1\\"' in text
    text.encode("utf-8")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (package prometheus)")
@pytest.mark.parametrize("job", ["resnet", HOSTILE])
def test_promtool_finds_no_fault(job: str):
    ranks = [rank_view(rank, late_s=0.02, host=job) for rank in range(4)]
    shown = snapshot(job=job, ranks=ranks, exposed_communication_ratio=0.1)
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=prom_text(figures_of(shown)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
