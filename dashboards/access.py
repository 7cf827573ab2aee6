"""Who may see the dashboard: the names it answers to, a token in its address, or a password.

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
from collections.abc import Iterable
from urllib.parse import quote, urlencode, urlsplit

from dash import Dash
from flask import Request, Response, redirect, request

TOKEN = "token"
"""The query parameter that carries the token in the printed address."""

FREE_FAILURES = 3
LONGEST_DELAY_S = 60.0
MOST_ADDRESSES = 10_000


class Access:
    """Decides about each request; one per server.

    Attributes:
        token: Part of the printed address; None where a password or nothing is asked for.
    """

    def __init__(
        self,
        *,
        password: str | None = None,
        with_token: bool = True,
        hosts: Iterable[str] = (),
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
