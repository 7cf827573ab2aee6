"""The pages, one module each: the contract of a page.

A page is a module with

* ``PATH``: its path in the address, such as ``"/ranks"``; ``TITLE``: its name in the navigation;
* ``KEYS``: keys of the address that the content depends on, such as ``("np", "pass")``; the run is
  always one of them. When one of these changes, the shell redraws the page; other keys (a zoom)
  are handled by callbacks of the page;
* ``layout(runs, view)``: the whole page of a view, a pure function of the run and the address. It
  is only called with a run (``view.run`` is a ``str`` that is there). An ``HvdprofError`` that it
  raises is shown as an alert with its hint;
* ``lack(runs, run_id)``: why the page is empty and which commands fill it, ``None`` where it is
  not; its tab is grey then and says so. It asks tables for rows, and draws nothing;
* ``register(app, runs)``: the callbacks of the page, if any.

and stands in a ``Tab`` of ``TABS`` of ``hvdprof.dashboards.app``. Nothing is computed in a page:
tables come from the store, figures from ``hvdprof.figures``, numbers become texts in
``hvdprof.units``.

From the address: ``view.run``, ``view.np`` (an int or ``None``), ``view.pass_id``,
``view.text("tensor")``, ``view.whole("step")``. Values come from the browser and can name
missing things: look them up, never use them as paths, and fall back to a default. A link to another
view is ``dmc.Anchor("...", href=view.at("/timeline").changed(step=12).href)``; choosing with
``components.view_control.view_select(key, label, options, value)`` writes ``key`` into the address
without any callback; ``key`` then has to be one of ``KEYS``.

From the store: ``runs.table(view.run, "collectives")`` is any declared table (of the recording or
the analysis, for run directories and standalone files alike, without rows where there are none);
``runs.run(view.run)`` the recording, ``runs.analysis(view.run)`` the analysis of a run directory
(raises for a standalone file), ``runs.made(view.run, key, make)`` caches costly results.

To show: ``components.section.section(title, *children, about=...)`` is a card,
``components.figure_card.figure_card(name, title, figure, about=...)`` one with a figure and its
PNG and SVG buttons, ``components.data_table.table_card(title, TABLE, frame, columns=[...])`` one
with a sortable table and its CSV button, ``components.text_table.section_cards(analysis, TABLE)``
the sections that reports have on a table, and ``components.empty_state.empty_state(why, command)``
replaces missing data: the reason,
and the command that makes them; ``lack_card`` shows a ``lack``. Terms of the glossary in an
``about`` text become links with their definition.

Names of tensors, hosts and files come from outside: components show them as text; in texts of
plotly, which renders some HTML, pass them through ``hvdprof.figures.palette.plain``.
"""

from dataclasses import dataclass
from typing import Protocol

from dash import Dash
from dash.development.base_component import Component

from hvdprof.dashboards.components.empty_state import Lack
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View


class Page(Protocol):
    """A module of this package, whose docstring defines each name."""

    PATH: str
    TITLE: str
    KEYS: tuple[str, ...]

    def layout(self, runs: RunStore, view: View) -> Component:
        """The page of a view."""

    def lack(self, runs: RunStore, run_id: str) -> Lack | None:
        """What would fill the page of a run; ``None`` where it shows something."""

    def register(self, app: Dash, runs: RunStore) -> None:
        """Callbacks of the page's own."""


@dataclass(frozen=True, slots=True)
class Tab:
    """An entry of the navigation.

    Attributes:
        title: Its name.
        pages: What it leads to, the first of them opened by it, the others by links below it.
        key: The key that opens it; empty for none.
        is_apart: Whether it is about all runs, to the right of those of one run.
        is_seldom: Whether it is left out, not grey, while there is nothing to see in it.
    """

    title: str
    pages: tuple[Page, ...]
    key: str = ""
    is_apart: bool = False
    is_seldom: bool = False


def never_empty(_runs: RunStore, _run_id: str) -> Lack | None:
    """The ``lack`` of a page that every run fills."""
    return None
