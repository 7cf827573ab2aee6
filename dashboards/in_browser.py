"""Callbacks that run in the browser; their functions are in ``assets/hvdprof.js``."""

from typing import Any

from dash import ClientsideFunction, Dash


def run_in_browser(app: Dash, function: str, *wiring: Any, first: bool = True) -> None:
    """Register a function that runs in the browser.

    Args:
        app: The app.
        function: Name of the function in ``assets/hvdprof.js``.
        wiring: Outputs, inputs and states, as for any callback.
        first: Whether it also runs when the components appear.
    """
    untyped: Any = app
    untyped.clientside_callback(
        ClientsideFunction("hvdprof", function), *wiring, prevent_initial_call=not first
    )
