"""A document as a PDF, printed by the browser of the machine."""

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from hvdprof.errors import EnvironmentNotReadyError, MissingExtraError
from hvdprof.rundir.written_file import check_new, open_whole

_LIMIT_S = 120.0
_OTHERWISE = "hvdprof report RUN -o report.html writes a page that any browser prints as a PDF."


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
    try:
        from choreographer.browsers.chromium import Chromium
    except ModuleNotFoundError as error:
        raise MissingExtraError("A PDF of the report", extra="report") from error
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
