"""A run while it is measured: rates, costs, ranks that differ, events; without a reload."""

import math
import time

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from hvdprof import units
from hvdprof.api.live import CAUSE_TEXTS, Event, Snapshot
from hvdprof.dashboards import ids
from hvdprof.dashboards.access import text_or_none
from hvdprof.dashboards.components.empty_state import Lack, lack_card, problem_alert
from hvdprof.dashboards.components.section import section
from hvdprof.dashboards.components.text_table import section_cards, text_table
from hvdprof.dashboards.live_watches import LiveRun, LiveWatches
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from hvdprof.errors import HvdprofError
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.finding_tables import LIVE_EVENTS

PATH = "/live"
TITLE = "Live"
KEYS: tuple[str, ...] = ()

_TICK_MS = 1_000
_NOTHING = Lack(
    "This run is not being measured, and no events were seen while it was.",
    ("hvdprof run --light --watch --np 2 -- python train.py",),
    about="While a run is measured, this page shows which rank is slow, since when, and at which "
    "cost.",
)
_TONES = {"begun": "yellow", "over": "green"}
_TONE_OF_OTHERS = "blue"


def layout(runs: RunStore, view: View) -> html.Div | dmc.Stack:
    """What follows a run that is measured; the events of one that has ended."""
    run_id = str(view.run)
    entry = runs.entry(run_id)
    if entry is not None and entry.is_open:
        return html.Div(
            [
                html.Div(dmc.Text("Reading the recordings."), id=ids.LIVE),
                dcc.Store(id=ids.LIVE_RUN, data=run_id),
                dcc.Interval(id=ids.LIVE_TICK, interval=_TICK_MS),
            ]
        )
    cards = _past_events(runs, run_id)
    return dmc.Stack(cards, gap="md") if cards else lack_card(_NOTHING)


def lack(runs: RunStore, run_id: str) -> Lack | None:
    """A run that has ended without events; a run that is measured is not read for it."""
    entry = runs.entry(run_id)
    if entry is not None and entry.is_open:
        return None
    return None if _past_events(runs, run_id) else _NOTHING


def register(app: Dash, runs: RunStore) -> None:
    """Look again every second."""
    watches = LiveWatches(runs)

    @app.callback(
        Output(ids.LIVE, "children"),
        Input(ids.LIVE_TICK, "n_intervals"),
        State(ids.LIVE_RUN, "data"),
        # Of looks that overtake each other, Dash would show none.
        running=[(Output(ids.LIVE_TICK, "disabled"), True, False)],
    )
    def follow(_ticks: object, run_id: object) -> object:
        name = text_or_none(run_id)
        if name is None:
            raise PreventUpdate
        try:
            return dmc.Stack([state_line(runs, name), shown(watches.look(name))], gap="xs")
        except HvdprofError as error:
            return problem_alert(error)


def state_line(runs: RunStore, run_id: str) -> dmc.Text:
    """One line, so that nothing moves when the run ends."""
    entry = runs.entry(run_id)
    if entry is None or entry.is_open:
        return dmc.Text("Being measured. This page follows the run.", size="sm")
    link = dmc.Anchor("Open the diagnosis", href=View("/", {"run": run_id}).href, inherit=True)
    ended = f"The run has ended: {entry.status}. Below is what was seen last. "
    return dmc.Text([ended, link], size="sm", fw=600)


def _past_events(runs: RunStore, run_id: str) -> list[Component]:
    looked = runs.finished(run_id)
    return section_cards(looked, LIVE_EVENTS) if isinstance(looked, RunAnalysis) else []


def shown(run: LiveRun) -> dmc.Stack:
    """The page of what is known now."""
    snapshot = run.snapshot
    if snapshot is None or math.isnan(snapshot.step_s):
        parts = [section("Live", dmc.Text("No steps of all ranks yet."))]
    else:
        parts = [_figures(snapshot), _ranks(snapshot)]
    if run.events:
        parts.append(section("Events", *(_event(event) for event in run.events)))
    parts += [dmc.Text(f"Note: {text.rstrip('.')}.", size="sm") for text in run.problems]
    return dmc.Stack(parts, gap="md")


def _figures(snapshot: Snapshot) -> dmc.Paper:
    change = snapshot.samples_per_s / snapshot.first_samples_per_s - 1
    against = "" if math.isnan(change) else f" ({round(100 * change):+} % against the begin)"
    costs = sorted(snapshot.costs_s.items(), key=lambda cost: -cost[1])
    step = units.milliseconds(1e9 * snapshot.step_s)
    return section(
        "Live",
        dmc.Text(
            f"{units.rate(snapshot.samples_per_s)} samples/s{against}, {step} per step; "
            f"{units.counted(snapshot.num_ranks, 'rank')}, step {units.count(snapshot.step)}",
            fw=600,
        ),
        text_table(
            ("part of the step", "time", "share"),
            [
                (
                    CAUSE_TEXTS.get(cause, cause),
                    units.milliseconds(1e9 * cost_s),
                    units.two_digit_percent(cost_s / snapshot.step_s),
                )
                for cause, cost_s in costs
            ],
            left=1,
            narrowest=320,
        ),
        about="Means over the last ten windows of a second.",
    )


def _ranks(snapshot: Snapshot) -> dmc.Paper:
    rows = [
        (
            f"rank {view.rank}",
            view.host,
            units.milliseconds(1e9 * view.late_s),
            units.milliseconds(1e9 * view.cost_s),
            view.phase.replace("_", " "),
            "named" if view.is_named else "not confirmed",
        )
        for view in snapshot.differing()
    ]
    if not rows:
        return section("Ranks", dmc.Text(snapshot.without_difference()))
    head = ("rank", "host", "slower per step", "costs per step", "phase", "test")
    return section("Ranks", text_table(head, rows, left=2, narrowest=560))


def _event(event: Event) -> dmc.Group:
    moment = time.strftime("%H:%M:%S", time.localtime(event.time_s))
    return dmc.Group(
        [
            dmc.Badge(
                f"{event.kind} {event.state}",
                color=_TONES.get(event.state, _TONE_OF_OTHERS),
                variant="light",
            ),
            dmc.Text(f"{moment} {event.text}", size="sm"),
        ],
        gap="xs",
        mb=4,
    )
