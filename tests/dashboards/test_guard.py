import json

import pytest

from hvdprof.dashboards.app import PAGES, create_app
from hvdprof.dashboards.run_store import RunStore
from tests.builders.finished_analysis import full_analysis


def client(tmp_path):
    runs = RunStore([tmp_path], read=lambda _: full_analysis())
    return create_app(runs).server.test_client()


def page_payload(search="", pathname="/", **changes):
    payload = {
        "output": "..page.children...drawn.data..",
        "outputs": [
            {"id": "page", "property": "children"},
            {"id": "drawn", "property": "data"},
        ],
        "inputs": [
            {"id": "location", "property": "pathname", "value": pathname},
            {"id": "location", "property": "search", "value": search},
            {"id": "due", "property": "data", "value": None},
        ],
        "changedPropIds": ["location.pathname"],
        "state": [{"id": "drawn", "property": "data", "value": None}],
    }
    return payload | changes


def post(asking, payload):
    return asking.post("/_dash-update-component", json=payload)


@pytest.mark.heavy
def test_what_dash_sends_is_answered(tmp_path):
    answer = post(client(tmp_path), page_payload())
    assert answer.status_code == 200
    assert "scaling efficiency" in answer.text


def test_an_unknown_path_is_404_with_the_page_that_says_so(tmp_path):
    asking = client(tmp_path)
    known = [asking.get(page.PATH) for page in PAGES]
    unknown = [asking.get(path) for path in ("/nowhere", "/timeline/x", "/wp-login.php")]
    assert {answer.status_code for answer in known} == {200}
    assert {answer.status_code for answer in unknown} == {404}
    assert all("DashRenderer()" in answer.text for answer in unknown)
    assert unknown[0].content_type.startswith("text/html")
    assert asking.get("/_dash-layout").status_code == 200


@pytest.mark.heavy
@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        "text",
        {},
        {"output": "no-such.thing"},
        {"output": ["page"]},
        page_payload(inputs=[]),
        page_payload(inputs=None),
        page_payload(inputs=[1, 2]),
        page_payload(state=[]),
        page_payload(outputs=None),
        page_payload(changedPropIds=[{}]),
        page_payload(search={"a": 1}),
        page_payload(pathname=["/"]),
        page_payload(inputs=[{"id": "location", "property": "hash", "value": ""}] * 2),
    ],
    ids=repr,
)
def test_a_malformed_payload_is_refused(tmp_path, payload):
    answer = post(client(tmp_path), payload)
    assert 400 <= answer.status_code < 500
    assert "Traceback" not in answer.text


def test_what_is_no_json_is_refused(tmp_path):
    answer = client(tmp_path).post("/_dash-update-component", data=b"\xff{")
    assert 400 <= answer.status_code < 500


def test_a_run_that_was_not_named_cannot_be_asked_for(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    answer = post(client(tmp_path), page_payload(search="?run=..%2Fother"))
    drawn = json.loads(answer.text)["response"]["drawn"]["data"]
    assert drawn["run"] is None
    assert "Not found: there is no run" in answer.text


def test_pages_may_run_only_what_the_app_itself_serves(tmp_path):
    policy = client(tmp_path).get("/").headers["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in rules["script-src"]
    assert "'sha256-" in rules["script-src"]


def test_a_deeply_nested_body_is_a_bad_request(tmp_path):
    answer = client(tmp_path).post(
        "/_dash-update-component", data="[" * 90_000, content_type="application/json"
    )
    assert answer.status_code == 400
