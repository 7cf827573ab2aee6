"""Only payloads that Dash can send, and headers that forbid what the pages do not need."""

from collections.abc import Collection
from http import HTTPStatus

from dash import Dash
from flask import Response, request
from werkzeug.exceptions import BadRequest

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
