import base64

import pytest

from hvdprof.dashboards.access import Access, address_with_token
from hvdprof.dashboards.app import create_app
from hvdprof.dashboards.run_store import RunStore
from tests.builders.finished_analysis import full_analysis


def client(tmp_path, access):
    runs = RunStore([tmp_path], read=lambda _: full_analysis())
    return create_app(runs, access=access).server.test_client()


def basic(user, password):
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


@pytest.mark.heavy
@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8050", "127.0.0.1:1", "[::1]:1", "192.0.2.7", "proxy.example"]
)
def test_addresses_and_known_names_are_answered(tmp_path, host):
    asking = client(tmp_path, Access(with_token=False, hosts=["proxy.example"]))
    assert asking.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.heavy
@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "[::1", "a b"])
@pytest.mark.parametrize("path", ["/", "/_dash-layout", "/assets/hvdprof.css"])
def test_another_name_of_the_host_is_refused(tmp_path, host, path):
    # A hostile page lets its own name point to this machine (DNS rebinding).
    asking = client(tmp_path, Access(with_token=False))
    answer = asking.get(path, environ_overrides={"HTTP_HOST": host})
    assert answer.status_code in (400, 403)
    refused = asking.post("/_dash-update-component", environ_overrides={"HTTP_HOST": host})
    assert refused.status_code in (400, 403)


@pytest.mark.parametrize("path", ["/", "/_dash-layout", "/assets/hvdprof.css", "/timeline?run=x"])
def test_without_the_token_nothing_is_shown(tmp_path, path):
    asking = client(tmp_path, Access())
    assert asking.get(path).status_code == 401
    mark = "&" if "?" in path else "?"
    assert asking.get(f"{path}{mark}token=wrong").status_code == 401
    assert asking.post("/_dash-update-component", json={}).status_code == 401


def test_the_token_is_exchanged_for_a_cookie_that_scripts_cannot_read(tmp_path):
    access = Access()
    asking = client(tmp_path, access)
    answer = asking.get(f"/timeline?run=a&token={access.token}")
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/timeline?run=a"
    (cookie,) = answer.headers.getlist("Set-Cookie")
    assert access.token not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert asking.get("/").status_code == 200
    assert client(tmp_path, Access()).get("/").status_code == 401


def test_the_way_back_stays_on_this_host(tmp_path):
    access = Access()
    answer = client(tmp_path, access).get(
        "/",
        query_string={"token": access.token},
        environ_overrides={"PATH_INFO": "//evil.example/"},
    )
    assert answer.status_code == 302
    assert not answer.headers["Location"].startswith("//")


def test_the_printed_address_carries_the_token():
    access = Access()
    assert address_with_token("http://h:1/", access.token) == f"http://h:1/?token={access.token}"
    assert address_with_token("http://h:1/", None) == "http://h:1/"
    assert len(access.token) >= 32


@pytest.mark.parametrize("path", ["/", "/_dash-layout", "/_dash-dependencies"])
def test_a_password_covers_the_whole_app(tmp_path, path):
    access = Access(password="p\u00e4ssword")
    asking = client(tmp_path, access)
    assert access.token is None
    refused = asking.get(path)
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Basic")
    assert asking.get(path, headers=basic("me", "wrong")).status_code == 401
    assert asking.get(path, headers={"Authorization": "Basic !"}).status_code == 401
    assert asking.get(path, headers={"Authorization": "Bearer x"}).status_code == 401
    assert asking.get(path, headers=basic("anyone", "p\u00e4ssword")).status_code == 200


def test_a_password_covers_callbacks_and_assets(tmp_path):
    asking = client(tmp_path, Access(password="secret"))
    assert asking.post("/_dash-update-component", json={}).status_code == 401
    assert asking.get("/assets/hvdprof.css").status_code == 401


@pytest.mark.heavy
def test_wrong_passwords_are_slowed_down_and_who_is_in_stays_in(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("hvdprof.dashboards.access.time.monotonic", lambda: now[0])
    access = Access(password="secret")
    inside, outside = client(tmp_path, access), client(tmp_path, access)
    assert inside.get("/", headers=basic("me", "secret")).status_code == 200
    tries = []
    for _ in range(1000):
        tries.append(outside.get("/", headers=basic("me", "wrong")).status_code)
        now[0] += 0.1
    # 100 seconds of ten tries each: without a delay all of them were 401.
    assert tries.count(401) <= 10
    refused = outside.get("/", headers=basic("me", "secret"))
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 61
    assert inside.get("/").status_code == 200
    now[0] += 61
    assert outside.get("/", headers=basic("me", "secret")).status_code == 200


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("//[", "/%5B"),
        ("//[::1", "/%5B%3A%3A1"),
        ("/a\r\nb", "/a%0D%0Ab"),
        ("/timeline", "/timeline"),
    ],
)
def test_an_odd_address_with_the_token_is_redirected(tmp_path, path, target):
    access = Access()
    asking = client(tmp_path, access)
    answer = asking.get(
        "/", query_string={"token": access.token}, environ_overrides={"PATH_INFO": path}
    )
    assert (answer.status_code, answer.headers["Location"]) == (302, target)


def test_a_token_that_is_not_utf8_is_wrong(tmp_path):
    asking = client(tmp_path, Access())
    assert asking.get("/?token=%ed%b3%a9").status_code == 401
    assert asking.get("/?token=%ff").status_code == 401
