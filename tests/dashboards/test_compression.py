import gzip

import pytest

from hvdprof.dashboards.app import create_app
from hvdprof.dashboards.run_store import RunStore

GZIP = {"Accept-Encoding": "gzip, deflate"}
SCRIPT = "/assets/timeline_tool.js"


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
    first = client.get(SCRIPT, headers=GZIP, buffered=True)
    monkeypatch.setattr(gzip, "compress", lambda *_, **__: pytest.fail("compressed again"))
    assert client.get(SCRIPT, headers=GZIP, buffered=True).data == first.data
    unchanged = GZIP | {"If-None-Match": first.headers["ETag"]}
    assert client.get(SCRIPT, headers=unchanged).status_code == 304


def test_what_is_short_or_refused_stays_as_it_is(client):
    short = client.get("/timeline-data/view", headers=GZIP)
    assert short.status_code == 404
    assert "Content-Encoding" not in short.headers
