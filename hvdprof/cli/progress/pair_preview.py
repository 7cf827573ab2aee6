"""What a comparison of two variants is about to measure.

Tested in ``tests/test_compare_end_to_end.py``.
"""

import shlex
from typing import IO

from hvdprof import api


def announce_pair(pair: "api.PairedMeasurement", stream: IO[str]) -> None:
    """Write where both variants are measured, their commands, and the most launches of each."""
    stream.write(f"hvdprof: measuring two variants into {pair.folder}\n")
    for measurement in pair.variants:
        stream.write(f"  {measurement.folder.name}: {shlex.join(measurement.shown_command)}\n")
        if measurement.has_secret:
            stream.write("! It seems to hold a secret; resume.json keeps it, for your eyes only.\n")
    repeats, sizes = pair.most_repeats, pair.variants[0].settings.sizes
    stream.write(
        f"  At most {repeats} launches of each at np={','.join(map(str, sizes))}, by turns "
        f"(A B B A); a decision after {' or '.join(map(str, pair.looks))} ends it.\n"
    )
    for measurement in pair.variants:
        for warning in measurement.manifest.warnings:
            stream.write(f"! {measurement.folder.name}: {warning}\n")
