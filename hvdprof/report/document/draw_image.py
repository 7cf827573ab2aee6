"""A program of its own: a figure as JSON on standard input, its image on standard output.

``python draw_image.py png 900 2`` is given format, width in CSS pixels and scale. It imports
nothing of hvdprof. It ends with ``NO_BROWSER`` where Chromium is missing or does not start.
"""

import json
import sys

NO_BROWSER = 3


def main() -> int:
    """Draw what standard input holds; the exit code says whether that worked."""
    import kaleido
    from kaleido.errors import BrowserFailedError, ChromeNotFoundError

    format_, width, scale = sys.argv[1:]
    try:
        image = kaleido.calc_fig_sync(
            json.load(sys.stdin),
            opts={"format": format_, "width": int(width), "scale": float(scale)},
            # Else the page loads MathJax from the Internet first, which many clusters do not have.
            kopts={"mathjax": False},
        )
    except (BrowserFailedError, ChromeNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        return NO_BROWSER
    sys.stdout.buffer.write(image)
    return 0


if __name__ == "__main__":
    sys.exit(main())
