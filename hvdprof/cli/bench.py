"""``hvdprof bench``: the reference models at several rank counts.

Tested in ``tests/test_bench_end_to_end.py``.
"""

import typer

from hvdprof.api.options import BenchOptions
from hvdprof.cli.measuring.command_options import CommandOptions
from hvdprof.cli.measuring.measure_and_report import measure_command
from hvdprof.cli.measuring.option_signature import takes


@takes(BenchOptions, CommandOptions)
def bench(options: BenchOptions, chosen: CommandOptions, context: typer.Context) -> None:
    """Run the reference models at several rank counts and report how well they scale."""
    measure_command(context, options, chosen)
