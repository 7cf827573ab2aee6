"""Who may see the dashboard, and which payloads and headers pass between it and browsers.

A page of a hostile site can make a browser ask a server on this machine under a name of its own
(DNS rebinding), and on a shared login node every user reaches the loopback address. So requests
name a host that is known, and carry a secret: Jupyter's server does the same.
"""

import hmac
import ipaddress
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable
from http import HTTPStatus
from urllib.parse import quote, urlencode, urlsplit

from dash import Dash
from flask import Request, Response, redirect, request
from werkzeug.exceptions import BadRequest

TOKEN = "token"
"""The query parameter that carries the token in the printed address."""

FREE_FAILURES = 3
LONGEST_DELAY_S = 60.0
MOST_ADDRESSES = 10_000

_ANY_PATH = "/<path:path>"
_CALLBACK_PATH = "/_dash-update-component"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
# Plotly, ag-grid and the components set styles of elements, and figures are saved as blobs.
_POLICY = (
    "default-src 'self'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Access:
    """Decides about each request; one per server.

    Attributes:
        token: Part of the printed address; None where a password or nothing is asked for.
    """

    def __init__(
        self, *, password: str | None = None, with_token: bool = True, hosts: Iterable[str] = ()
    ) -> None:
        """Choose what is asked for.

        Args:
            password: Asked for by HTTP basic authentication, with any user name, in place of the
                token.
            with_token: Ask for a random token where there is no password.
            hosts: Names that the dashboard answers to, beside addresses, ``localhost`` and the
                names of this machine.
        """
        self.token = secrets.token_urlsafe(32) if with_token and password is None else None
        self._password = password
        self._session = secrets.token_urlsafe(32)
        self._hosts = {_plain(name) for name in hosts} | _own_names()
        self._failures = _Failures()

    def restrict(self, app: Dash) -> None:
        """Refuse what is not allowed with 403 (host), 401 (secret) or 429 (too many tries)."""
        app.server.before_request(self._refusal)
        app.server.after_request(self._remember)

    def _refusal(self) -> Response | None:
        if not self._is_known_host(request.headers.get("Host", "")):
            return _text(
                403,
                "this name of the host is not known. Open the printed address, or start with "
                "--allow-host NAME",
            )
        if self._has_session():
            return None
        if self._password is not None:
            return self._password_refusal(self._password)
        if self.token is None:
            return None
        if _same(request.args.get(TOKEN), self.token):
            return _without_token(request) if request.method == "GET" else None
        return _text(401, "open the address that `hvdprof dashboard` printed: its token is missing")

    def _password_refusal(self, password: str) -> Response | None:
        given = request.authorization
        text = given.password if given is not None and given.type == "basic" else None
        address = request.remote_addr or ""
        if text is not None and (wait_s := self._failures.wait_s(address)) > 0:
            refused = _text(429, "too many wrong passwords. Wait")
            refused.headers["Retry-After"] = str(int(wait_s) + 1)
            return refused
        if _same(text, password):
            self._failures.forget(address)
            return None
        if text is not None:
            self._failures.note(address)
        refused = _text(401, "the password is missing or wrong")
        refused.headers["WWW-Authenticate"] = 'Basic realm="hvdprof dashboard", charset="UTF-8"'
        return refused

    def _remember(self, response: Response) -> Response:
        asked = self.token is not None or self._password is not None
        if asked and response.status_code < 400 and not self._has_session():
            response.set_cookie(
                self._cookie, self._session, httponly=True, samesite="Lax", path="/"
            )
        return response

    def _has_session(self) -> bool:
        return _same(request.cookies.get(self._cookie), self._session)

    @property
    def _cookie(self) -> str:
        # Cookies do not know ports: several dashboards of one host have one each.
        return f"hvdprof-{request.environ.get('SERVER_PORT', '')}"

    def _is_known_host(self, header: str) -> bool:
        name = _host_of(header)
        if name is None:
            return False
        try:
            # Only names can be made to point somewhere else.
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._hosts
        return True


class _Failures:
    """The wrong passwords of each address, and how long it waits for the next try."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Seconds until the next password of an address is looked at."""
        return self._of.get(address, (0, 0.0))[1] - time.monotonic()

    def note(self, address: str) -> None:
        """One more wrong password; the delay doubles with each after the first few."""
        number = self._of.pop(address, (0, 0.0))[0] + 1
        beyond = min(number - FREE_FAILURES, 10)
        delay_s = min(LONGEST_DELAY_S, 2.0**beyond) if beyond > 0 else 0.0
        self._of[address] = number, time.monotonic() + delay_s
        while len(self._of) > MOST_ADDRESSES:
            self._of.popitem(last=False)

    def forget(self, address: str) -> None:
        """The password was right."""
        self._of.pop(address, None)


def address_with_token(address: str, token: str | None) -> str:
    """The address to open in the browser."""
    return address if token is None else f"{address}?{urlencode({TOKEN: token})}"


def _without_token(asked: Request) -> Response:
    """To the same page without the token, which would stay in the history and in copied links."""
    rest = [(key, value) for key, value in asked.args.items(multi=True) if key != TOKEN]
    # A path of two slashes would be another host, and of other characters no address.
    path = "/" + quote(asked.path.lstrip("/\\"), errors="surrogateescape")
    found = redirect(f"{path}?{urlencode(rest, errors='surrogateescape')}" if rest else path)
    return Response(found.get_data(), found.status_code, found.headers)


def _text(status: int, sentence: str) -> Response:
    return Response(f"hvdprof dashboard: {sentence}.\n", status=status, mimetype="text/plain")


def _same(given: str | None, secret: str) -> bool:
    return given is not None and hmac.compare_digest(
        given.encode(errors="surrogatepass"), secret.encode()
    )


def _host_of(header: str) -> str | None:
    try:
        return _plain(urlsplit(f"//{header}").hostname or "") or None
    except ValueError:
        return None


def _plain(name: str) -> str:
    return name.strip().rstrip(".").strip("[]").lower()


def _own_names() -> set[str]:
    name = _plain(socket.gethostname())
    return {"localhost", name, name.partition(".")[0]} - {""}


def guard(app: Dash, paths: Collection[str]) -> None:
    """Refuse malformed requests with 400, and let pages load and run what is the app's own.

    Args:
        app: The app; its callbacks are those registered when a request arrives.
        paths: Those of the pages. Dash answers every other one with 200 as well, and a page that
            says "not found": it gets 404.
    """

    def refuse() -> None:
        if request.path == _CALLBACK_PATH and request.method == "POST":
            _check_payload(app, _json_of_request())

    def mark_unknown(response: Response) -> Response:
        rule = request.url_rule if response.status_code == HTTPStatus.OK else None
        if rule is not None and rule.rule == _ANY_PATH and request.path not in paths:
            response.status_code = HTTPStatus.NOT_FOUND
        return response

    def harden(response: Response) -> Response:
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        policy = _POLICY.format(hashes=" ".join(app.csp_hashes()))
        response.headers.setdefault("Content-Security-Policy", policy)
        return response

    app.server.before_request(refuse)
    app.server.after_request(harden)
    app.server.after_request(mark_unknown)


def _json_of_request() -> object:
    try:
        return request.get_json(silent=True)
    except RecursionError:
        raise BadRequest("The body is nested too deeply.") from None


def text_or_none(value: object) -> str | None:
    """A text from the browser, such as an address.

    Raises:
        BadRequest: It is neither a text nor missing.
    """
    if value is None or isinstance(value, str):
        return value
    raise BadRequest("A text was expected.")


def row_names(value: object) -> list[str]:
    """The ids of rows that are selected in the browser.

    Raises:
        BadRequest: It is no list of rows with an id each.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRequest("A list of rows was expected.")
    names = [row.get("id") if isinstance(row, dict) else None for row in value]
    if not all(isinstance(name, str) for name in names):
        raise BadRequest("A row has no id.")
    return [str(name) for name in names]


def _check_payload(app: Dash, payload: object) -> None:
    if not isinstance(payload, dict):
        raise BadRequest("The body is no JSON object.")
    output = payload.get("output")
    if not isinstance(output, str) or output not in app.callback_map:
        raise BadRequest("There is no such callback.")
    callback = app.callback_map[output]
    for part in ("inputs", "state"):
        given = payload.get(part, [])
        if not isinstance(given, list) or len(given) != len(callback[part]):
            raise BadRequest(f"The {part} are not those of the callback.")
        for one, declared in zip(given, callback[part], strict=True):
            _check_value(one, declared["property"])
    changed = payload.get("changedPropIds", [])
    if not isinstance(changed, list) or not all(isinstance(name, str) for name in changed):
        raise BadRequest("changedPropIds is no list of names.")
    if not isinstance(payload.get("outputs"), dict | list):
        raise BadRequest("The outputs are missing.")


def _check_value(given: object, name: str) -> None:
    # A pattern for several components sends a list of them.
    for value in given if isinstance(given, list) else [given]:
        if not isinstance(value, dict) or value.get("property") != name:
            raise BadRequest(f"No value of {name}.")
        if not isinstance(value.get("id"), str | dict):
            raise BadRequest(f"The component of {name} is not named.")
