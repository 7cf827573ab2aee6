"""Figures as image files, and a document as a PDF, drawn by the browser of the machine."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from hvdprof.errors import EnvironmentNotReadyError, MissingExtraError, UsageError, needs_extra
from hvdprof.model.results.comparison import History
from hvdprof.model.run import RunAnalysis
from hvdprof.report.document import draw_image
from hvdprof.rundir.written_file import check_new, open_whole

IMAGE_SUFFIXES = (".png", ".svg", ".pdf")
"""Endings of file names that a figure can be written to."""

_WIDTH = 900
_SHARPNESS = 2
_ATTEMPTS = 3
_ATTEMPT_LIMIT_S = 60.0

_LIMIT_S = 120.0
_IMAGE = "An image of a figure"
_OTHERWISE = "hvdprof report RUN -o report.html writes a page that any browser prints as a PDF."


def write_figure(analysis: RunAnalysis, name: str, path: Path, *, overwrite: bool = False) -> None:
    """Draw the figure of that name (``figures.catalogue``) into a file, whole or not at all.

    Raises:
        UsageError: No figure has that name.
        MissingExtraError: plotly or kaleido is not installed.
        EnvironmentNotReadyError: No browser is there that could draw it, or it does not answer.
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    with needs_extra(_IMAGE):
        from hvdprof.figures.catalogue import figure_kind
    _require_kaleido()
    _write(figure_kind(name).draw(analysis).to_json(), path, overwrite=overwrite)


def check_image(path: Path, *, overwrite: bool = False) -> None:
    """Refuse a file that no figure can be written to.

    Raises:
        UsageError: The file name has another ending than ``IMAGE_SUFFIXES``.
        StorageError: The file exists and may not be replaced.
    """
    if path.suffix not in IMAGE_SUFFIXES:
        raise UsageError(
            f"A figure cannot be written to {path}.",
            hint=f"Its name ends in one of {', '.join(IMAGE_SUFFIXES)}.",
        )
    check_new(path, overwrite=overwrite)


def write_history(found: History, path: Path, *, overwrite: bool = False) -> None:
    """Draw a series of runs into a file, whole or not at all.

    Raises:
        HvdprofError: As ``write_figure`` and ``check_image``.
    """
    check_image(path, overwrite=overwrite)
    with needs_extra(_IMAGE):
        from hvdprof.figures.time_differences import history_figure
    _require_kaleido()
    _write(history_figure(found).to_json(), path, overwrite=overwrite)


def _require_kaleido() -> None:
    if find_spec("kaleido") is None:
        raise MissingExtraError(_IMAGE, extra="report")


def _write(figure: str, path: Path, *, overwrite: bool) -> None:
    with open_whole(path, binary=True, overwrite=overwrite) as file:
        file.write(_image(figure, path.suffix[1:]))  # type: ignore[arg-type]


def _image(figure: str, format_: str) -> bytes:
    # Kaleido waits without an end for a page whose load event came before it listened, seen on busy
    # machines; only the end of its process gets rid of such a browser.
    for _ in range(_ATTEMPTS):
        done = _attempt(figure, format_)
        if done is None:
            continue
        if done.returncode == 0:
            return done.stdout
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        if done.returncode == draw_image.NO_BROWSER:
            raise EnvironmentNotReadyError(
                "Chromium or Chrome, which draws images of figures, is missing or does not start.",
                hint="On Debian or Ubuntu: apt-get install chromium. "
                "hvdprof report RUN -o report.html needs none.",
            )
        raise EnvironmentNotReadyError(
            f"Chromium did not draw the figure: {reason or f'exit code {done.returncode}'}",
            hint="hvdprof report RUN -o report.html needs no Chromium.",
        )
    raise EnvironmentNotReadyError(
        f"Chromium did not draw the figure within {_ATTEMPT_LIMIT_S:.0f} s, {_ATTEMPTS} times.",
        hint="Try again when the machine is less busy; "
        "hvdprof report RUN -o report.html needs no Chromium.",
    )


def _attempt(figure: str, format_: str) -> subprocess.CompletedProcess[bytes] | None:
    """What the drawing process answered; None where it did not within its time."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-P", draw_image.__file__, format_, str(_WIDTH), str(_SHARPNESS)]
        try:
            return subprocess.run(
                command,
                input=figure.encode(),
                capture_output=True,
                timeout=_ATTEMPT_LIMIT_S,
                env={**os.environ, "TMPDIR": folder},
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None


def write_pdf(render: Callable[[IO[str]], object], path: Path, *, overwrite: bool = False) -> None:
    """Print an HTML document into a PDF file, whole or not at all.

    Args:
        render: Writes the document to a stream.
        path: The file.
        overwrite: Whether a file of that name may be replaced.

    Raises:
        MissingExtraError: What finds the browser is not installed.
        EnvironmentNotReadyError: No browser is there, or it does not print.
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    check_new(path, overwrite=overwrite)
    browser = _browser()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page, printed = Path(folder, "report.html"), Path(folder, "report.pdf")
        with page.open("w", encoding="utf-8") as file:
            render(file)
        reason = _printed(browser, page, printed)
        if not printed.is_file():
            raise EnvironmentNotReadyError(
                f"{Path(browser).name} did not print the report: {reason}.", hint=_OTHERWISE
            )
        with open_whole(path, binary=True, overwrite=overwrite) as writing:
            writing.write(printed.read_bytes())  # type: ignore[arg-type]


def _browser() -> str:
    """The browser that draws images of figures, too."""
    with needs_extra("A PDF of the report"):
        from choreographer.browsers.chromium import Chromium
    found = Chromium.find_browser(skip_local=False)
    if not found:
        raise EnvironmentNotReadyError(
            "Chromium or Chrome, which prints a PDF, is missing.",
            hint=f"On Debian or Ubuntu: apt-get install chromium. {_OTHERWISE}",
        )
    return found


def _printed(browser: str, page: Path, printed: Path) -> str:
    """Print a page; why it may have failed."""
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        f"--user-data-dir={page.parent / 'profile'}",
        "--no-pdf-header-footer",
        # Figures are drawn by scripts: the page is printed when they have ended.
        "--virtual-time-budget=20000",
        f"--print-to-pdf={printed}",
        page.as_uri(),
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=_LIMIT_S,
            env={**os.environ, "TMPDIR": str(page.parent)},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_LIMIT_S:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
