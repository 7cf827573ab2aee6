"""Launches of a reference model for ``gpu_check``, without pandas: it may be missing there."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hvdprof.api.options import KNOWN_MODELS, BenchOptions
from hvdprof.errors import SweepIncompleteError
from hvdprof.launch.run.bench_run import prepare_bench, sweep_of
from hvdprof.launch.run.run_folder import make_run_folder
from hvdprof.launch.run.script_launcher import find_tools
from hvdprof.launch.run.sweep_state import SilentProgress


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the launches and print a line for each; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--np", type=int, required=True)
    parser.add_argument("--controller", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    tools = find_tools()
    bench = BenchOptions(
        models=options.model,
        np=options.np,
        num_steps=options.steps,
        num_warmup_batches=5,
        repeats=1,
        interleave=False,
        controller=options.controller,
        device=options.device,
        output=options.output,
        net=False,
    )
    manifest = prepare_bench(bench, KNOWN_MODELS, tools)
    folder = make_run_folder(manifest, options.output, "gpu-check")
    code = 0
    try:
        sweep_of(manifest, folder, tools, SilentProgress()).run()
    except SweepIncompleteError:
        code = 1
    for record in manifest.passes:
        reasons = [one.failure.reason for one in record.segments if one.failure is not None]
        seconds = record.duration_s or 0.0
        text = f"np {record.size} {record.controller} {record.mode}: {record.status}"
        sys.stdout.write("; ".join([f"{text} in {seconds:.1f} s", *reasons]) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
