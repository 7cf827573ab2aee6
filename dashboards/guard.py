"""Access control: a password for the whole app, and only payloads that Dash can send."""

import hmac

from dash import Dash
from flask import Response, request
from werkzeug.exceptions import BadRequest

_CALLBACK_PATH = "/_dash-update-component"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}


def guard(app: Dash, password: str | None) -> None:
    """Refuse malformed requests with 400 and, with a password, requests without it with 401.

    Args:
        app: The app; its callbacks are those registered when a request arrives.
        password: Required by HTTP basic authentication, with any user name; ``None`` for none.
    """

    def refuse() -> Response | None:
        if password is not None and not _knows(password):
            return Response(
                "hvdprof dashboard: the password is missing or wrong.\n",
                status=401,
                headers={"WWW-Authenticate": 'Basic realm="hvdprof dashboard", charset="UTF-8"'},
                mimetype="text/plain",
            )
        if request.path == _CALLBACK_PATH and request.method == "POST":
            _check_payload(app, request.get_json(silent=True))
        return None

    def harden(response: Response) -> Response:
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    app.server.before_request(refuse)
    app.server.after_request(harden)


def text_or_none(value: object) -> str | None:
    """A text from the browser, such as an address.

    Raises:
        BadRequest: It is neither a text nor missing.
    """
    if value is None or isinstance(value, str):
        return value
    raise BadRequest("A text was expected.")


def mapping_or_none(value: object) -> dict[str, object] | None:
    """An object from the browser, such as a click.

    Raises:
        BadRequest: It is neither an object nor missing.
    """
    if value is None or isinstance(value, dict):
        return value
    raise BadRequest("An object was expected.")


def _knows(password: str) -> bool:
    given = request.authorization
    if given is None or given.type != "basic" or given.password is None:
        return False
    return hmac.compare_digest(given.password.encode(), password.encode())


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
    for one in given if isinstance(given, list) else [given]:
        if not isinstance(one, dict) or one.get("property") != name:
            raise BadRequest(f"No value of {name}.")
        if not isinstance(one.get("id"), str | dict):
            raise BadRequest(f"The component of {name} is not named.")
