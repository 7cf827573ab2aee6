"""One figure of an analysis as an image file, drawn by the browser of the machine."""

from pathlib import Path

from hvdprof.errors import EnvironmentNotReadyError, MissingExtraError
from hvdprof.model.run import RunAnalysis
from hvdprof.rundir.whole_file import open_whole

IMAGE_SUFFIXES = (".png", ".svg", ".pdf")
"""Endings of file names that a figure can be written to."""

_WIDTH = 900
_SHARPNESS = 2


def write_figure(analysis: RunAnalysis, name: str, path: Path, *, overwrite: bool = False) -> None:
    """Draw the figure of that name (``figures.catalogue``) into a file, whole or not at all.

    Raises:
        UsageError: No figure has that name.
        MissingExtraError: plotly or kaleido is not installed.
        EnvironmentNotReadyError: No browser is there that could draw it.
        StorageError: The file exists and may not be replaced, or cannot be written.
    """
    try:
        from choreographer.errors import BrowserDepsError, BrowserFailedError

        from hvdprof.figures.catalogue import figure_kind
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hvdprof"):
            raise
        raise MissingExtraError("An image of a figure", extra="report") from error
    drawn = figure_kind(name).draw(analysis)
    with open_whole(path, binary=True, overwrite=overwrite) as file:
        try:
            image = drawn.to_image(format=path.suffix[1:], width=_WIDTH, scale=_SHARPNESS)
        except (BrowserDepsError, BrowserFailedError, RuntimeError) as error:
            raise EnvironmentNotReadyError(
                "Chromium or Chrome, which draws images of figures, is missing or does not start.",
                hint="On Debian or Ubuntu: apt-get install chromium. "
                "hvdprof report RUN -o report.html needs none.",
            ) from error
        file.write(image)  # type: ignore[arg-type]
