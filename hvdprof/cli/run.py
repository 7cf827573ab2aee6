"""``hvdprof run``: a script of the user's, under Horovod or torch.distributed, unmodified.

Tested in ``tests/test_run_end_to_end.py``.
"""

import typer

from hvdprof.api.options import RunOptions
from hvdprof.cli.measuring.command_options import CommandOptions
from hvdprof.cli.measuring.measure_and_report import measure_command
from hvdprof.cli.measuring.option_signature import takes


@takes(RunOptions, CommandOptions)
def run(options: RunOptions, chosen: CommandOptions, context: typer.Context) -> None:
    """Run an unmodified Horovod or DDP script; report how well it scales, and why not better."""
    measure_command(context, options, chosen)
