"""Write which tests a change needs, and print which are left out and why.

    python -m tests.selection [--base COMMIT] [--output FILE]

``make test-changed`` runs it. Without ``--output`` it lists the files of tests instead.
"""

import argparse
import sys
from pathlib import Path

from tests.builders.places import ROOT
from tests.selection.changed_files import NoBaseError, changed_files, default_base
from tests.selection.plugin import write_selection
from tests.selection.selected_tests import Selection, select

_CAUSES = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.selection", description=__doc__)
    parser.add_argument("--base", help="commit to compare with")
    parser.add_argument("--output", type=Path, help="file for the plugin of pytest")
    given = parser.parse_args()
    try:
        base, origin = (given.base, "BASE") if given.base else default_base(ROOT)
        changed = changed_files(ROOT, base)
    except NoBaseError as error:
        print(error, file=sys.stderr)
        return 2
    selected = select(ROOT, changed)
    print(f"Against {base[:12]} ({origin}): {len(changed)} files changed.")
    print(summary(selected))
    if given.output:
        write_selection(selected, given.output)
        return 0
    for path in sorted(selected.tests | selected.real):
        print(f"  {path}{'' if path in selected.real else '    without real ranks'}")
    return 0


def summary(selected: Selection) -> str:
    """What runs, which changed files cause it, and what is left out by reason."""
    if selected.whole:
        return "\n".join(
            [
                "Every test runs. These files cannot be placed, or every test needs them:",
                *(f"  {path}" for path in selected.whole),
            ]
        )
    lines = [f"{len(selected.tests | selected.real)} files of tests run, because of"]
    lines += [f"{number:5} {path}" for path, number in selected.causes.most_common(_CAUSES)]
    if (more := len(selected.causes) - _CAUSES) > 0:
        lines.append(f"      and {more} more changed files, each of fewer tests")
    lines.append("Left out, in files of tests:")
    lines += [f"{number:5} {reason}" for reason, number in selected.left_out.most_common()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
