"""The first page: how well it scaled, what costs most, and how far the numbers can be trusted."""

import shlex
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, dcc

from dashboards import ids
from dashboards.components.cell_tables import cell_table
from dashboards.components.figure_card import figure_graph
from dashboards.components.problem_alert import problem_alert
from dashboards.components.section import section
from dashboards.run_store import RunStore
from hvdprof.errors import HvdprofError
from hvdprof.figures.losses import losses_figure
from hvdprof.figures.scaling_curve import scaling_curve
from hvdprof.model.run import RunAnalysis
from hvdprof.report.terminal_page import Page, shape_page

PATH = "/"
TITLE = "Overview"


def layout() -> dcc.Loading:
    """The empty page; its content follows the chosen run."""
    return dcc.Loading(dmc.Box(id=ids.OVERVIEW_CONTENT, mih=300), delay_show=300)


def register(app: Dash, runs: RunStore) -> None:
    """Fill the page whenever another run is chosen."""

    @app.callback(Output(ids.OVERVIEW_CONTENT, "children"), Input(ids.RUN, "value"))
    def show(run_id: str | None) -> Any:
        return content(runs, run_id)


def content(runs: RunStore, run_id: str | None) -> Any:
    """What the page shows of a run, or the reason why it cannot be shown."""
    if run_id is None:
        return None
    try:
        analysis = runs.analysis(run_id)
    except HvdprofError as error:
        return problem_alert(error)
    page = shape_page(analysis)
    parts = [_verdict(page), *_figures(analysis), _tables(page)]
    parts += [part for part in (_not_measured(page), _warnings(page)) if part is not None]
    return dmc.Stack([*parts, _facts(analysis, page)], gap="md")


def _verdict(page: Page) -> dmc.Paper:
    return dmc.Paper(
        dmc.Title(page.verdict, order=1, size="h3", fw=600), p="md", radius="md", bg="blue.0"
    )


def _figures(analysis: RunAnalysis) -> list[Any]:
    return [
        section(
            "Scaling efficiency",
            figure_graph(scaling_curve(analysis.scaling), "scaling-curve"),
            about="Throughput per rank against the baseline, with its 95 % interval. Hollow "
            "points are oversubscribed: measured, but they say nothing about scaling.",
        ),
        section(
            "Where the time goes",
            figure_graph(losses_figure(analysis.losses, analysis.scaling), "losses"),
            about="What a step takes longer than in the baseline, by part; the parts of a bar "
            "sum to what its cell lacks to 100 %.",
        ),
    ]


def _tables(page: Page) -> dmc.Paper:
    return section("All numbers", *[cell_table(table) for table in page.tables])


def _not_measured(page: Page) -> dmc.Paper | None:
    failed = [
        dmc.Stack(
            [
                dmc.Text(f"{cell.what}: {cell.reason}"),
                *([dmc.Code("\n".join(cell.lines), block=True)] if cell.lines else []),
            ],
            gap=4,
        )
        for cell in page.failed
    ]
    skipped = [
        dmc.Stack([dmc.Text(group.reason), dmc.Text("; ".join(group.cells), c="gray.7")], gap=0)
        for group in page.skipped
    ]
    parts = [
        section(title, *entries)
        for title, entries in (("Failed", failed), ("Skipped", skipped))
        if entries
    ]
    return dmc.Stack(parts, gap="md") if parts else None


def _warnings(page: Page) -> dmc.Alert | None:
    if not page.warnings:
        return None
    return dmc.Alert(
        dmc.List([dmc.ListItem(warning) for warning in page.warnings], size="sm"),
        title=dmc.Text("Warnings", fw=700, c="dark", size="sm"),
        color="yellow",
        variant="light",
    )


def _facts(analysis: RunAnalysis, page: Page) -> dmc.Paper:
    manifest = analysis.run.manifest
    lines = [
        dmc.Text(f"{manifest.name}: {page.where}", size="sm"),
        dmc.Code(shlex.join(manifest.command), block=True),
    ]
    exports = [f"{line}  # {use}" for line, use in page.next_commands if " export " in line]
    if exports:
        lines += [dmc.Text("In a terminal:", size="sm"), dmc.Code("\n".join(exports), block=True)]
    return section("About this run", *lines)
