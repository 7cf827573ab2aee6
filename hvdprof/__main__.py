"""``python -m hvdprof``, and the command ``hvdprof``: Ctrl-C ends it in one line at any moment."""

import contextlib
import os
import sys


def main() -> None:
    """Run the command line; does not return."""
    try:
        # Its import takes most of a short command.
        from hvdprof.cli.main import main as run

        run()
    except KeyboardInterrupt:
        # Standard error may be closed or full, and is not made ready yet.
        with contextlib.suppress(OSError):
            os.write(2, b"hvdprof: Interrupted.\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
