"""Replacement of a page or a part without data: the reason, and how to get data."""

import dash_mantine_components as dmc

from hvdprof.dashboards.components.copied_text import copied_text
from hvdprof.dashboards.components.term_link import linked_terms
from hvdprof.dashboards.view import View


def empty_state(why: str, *commands: str, about: str = "") -> dmc.Paper:
    """A card with the missing data and the command that makes them.

    Args:
        why: What is missing and why, one sentence.
        commands: Command lines that make the data, each with a button that copies it.
        about: What the page shows with the data, one sentence.
    """
    lines = [
        copied_text(command, dmc.Code(command, block=True, className="keep-lines"))
        for command in commands
    ]
    texts = [dmc.Text(why, fw=600)] + ([dmc.Text(linked_terms(about), size="sm")] if about else [])
    return dmc.Paper(
        dmc.Stack([*texts, *lines], gap="xs"),
        withBorder=True,
        p="lg",
        radius="md",
        className="empty",
    )


def no_run() -> dmc.Paper:
    """The dashboard without any run."""
    return empty_state(
        "No run yet.",
        "hvdprof bench --preset quick",
        about="This page shows the first run that appears in the opened folder.",
    )


def no_such_run(run_id: str, others: str) -> dmc.Paper:
    """A run that the address names and that is not there.

    Args:
        run_id: Its id in the address.
        others: Address of the same page without a run.
    """
    return _not_found(f"Not found: there is no run {run_id!r} here.", others, "Show the other runs")


def no_page(view: View) -> dmc.Paper:
    """An address whose path is that of no page."""
    return _not_found(
        f"Not found: there is no page {view.path!r}.", view.at("/").href, "Go to the overview"
    )


def _not_found(sentence: str, href: str, link: str) -> dmc.Paper:
    return dmc.Paper(
        dmc.Stack([dmc.Text(sentence, fw=600), dmc.Anchor(link, href=href, size="sm")], gap="xs"),
        withBorder=True,
        p="lg",
        radius="md",
        className="empty",
    )
