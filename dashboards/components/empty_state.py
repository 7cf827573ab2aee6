"""What stands in place of content: why there is none, a failure, or files that were not read."""

from collections.abc import Sequence
from dataclasses import dataclass

import dash_mantine_components as dmc
from dash.development.base_component import Component

from hvdprof import units
from hvdprof.dashboards.components.section import copied_text
from hvdprof.dashboards.components.term_link import linked_terms
from hvdprof.dashboards.view import View
from hvdprof.errors import HvdprofError
from hvdprof.model.file_page import FilePage


def problem_alert(error: HvdprofError) -> dmc.Alert:
    """The message of an error and, where there is one, its hint."""
    return _problem(error.message, error.hint)


def fault_alert(title: str, error: Exception) -> dmc.Alert:
    """A page that failed by a bug of hvdprof: the error, and how to report it."""
    return _problem(
        f"The page {title} failed: this is a bug in hvdprof, not a problem of your run.",
        f"{type(error).__name__}: {error}. The terminal that runs the dashboard shows the "
        "traceback; report it together with `hvdprof doctor`. The other pages still work.",
    )


def _problem(title: str, text: str | None) -> dmc.Alert:
    said = dmc.Text(text, className="keep-lines") if text else None
    return dmc.Alert(said, title=title, color="red", variant="light", className="problem")


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a page is empty.

    Attributes:
        why: What is missing and why, one sentence.
        commands: Command lines that make the data, each shown with a button that copies it.
        about: What the page shows with the data, one sentence.
    """

    why: str
    commands: tuple[str, ...]
    about: str = ""


def empty_state(why: str, *commands: str, about: str = "") -> dmc.Paper:
    """A card with the missing data and the command that makes them, as in ``Lack``."""
    return lack_card(Lack(why, commands, about))


def lack_texts(lack: Lack) -> dmc.Stack:
    """The sentences and commands of a lack."""
    lines = [
        copied_text(command, dmc.Code(command, block=True, className="keep-lines"))
        for command in lack.commands
    ]
    texts = [dmc.Text(lack.why, fw=600)]
    if lack.about:
        texts.append(dmc.Text(linked_terms(lack.about), size="sm"))
    return dmc.Stack([*texts, *lines], gap="xs")


def lack_card(lack: Lack) -> dmc.Paper:
    """A lack in place of the content of a page."""
    return _empty(lack_texts(lack))


def no_run() -> dmc.Paper:
    """The dashboard without any run."""
    return empty_state(
        "No run yet.",
        "hvdprof bench --preset quick",
        about="This page shows the first run that appears in the opened folder.",
    )


def no_such_run(run_id: str, others: str) -> dmc.Paper:
    """A run that the address names and that is not there; a link to the same page without a run."""
    return _not_found(f"Not found: there is no run {run_id!r} here.", others, "Show the other runs")


def no_page(view: View) -> dmc.Paper:
    """An address whose path is that of no page."""
    return _not_found(
        f"Not found: there is no page {view.path!r}.", view.at("/").href, "Go to the diagnosis"
    )


def _not_found(sentence: str, href: str, link: str) -> dmc.Paper:
    texts = [dmc.Text(sentence, fw=600), dmc.Anchor(link, href=href, size="sm")]
    return _empty(dmc.Stack(texts, gap="xs"))


def _empty(content: Component) -> dmc.Paper:
    return dmc.Paper(content, withBorder=True, p="lg", radius="md", className="empty")


_MOST_NAMED = 6


def unread_files(files: Sequence[FilePage]) -> list[Component]:
    """Why files are left out, and which files hold nothing known."""
    reasons = list(dict.fromkeys(file.left_out for file in files if file.left_out))
    others = [file.file for file in files if not file.left_out]
    parts: list[Component] = [empty_state(reason) for reason in reasons[:_MOST_NAMED]]
    if more := len(reasons) - len(parts):
        parts.append(empty_state(f"{units.counted(more, 'more file')} left out."))
    if others:
        holds = "holds" if len(others) == 1 else "hold"
        text = f"{_listed(others, 'file')} {holds} nothing that hvdprof reads."
        parts.append(dmc.Text(text, size="sm", className="about"))
    return parts


def _listed(files: Sequence[str], noun: str) -> str:
    """The number of files and the names of the first, ``2 files (a.json, b.json)``."""
    more = len(files) - _MOST_NAMED
    names = ", ".join(files[:_MOST_NAMED]) + (f" and {units.count(more)} more" if more > 0 else "")
    return f"{units.counted(len(files), noun)} ({names})"
