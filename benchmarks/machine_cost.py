"""What the samples of the machine cost: processor time per sample, and of a core for a host.

    python -m benchmarks.machine_cost                     this host, eight ranks
    python -m benchmarks.machine_cost --ranks 4 --gpu GPU-8a1f...

Of each source it reads ``SAMPLES`` times and prints the thread's processor time per read; the sum
for a host is that of its ranks, their GPUs and the host, once a second.

Tested by tests/benchmarks/test_machine_cost.py.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from hvdprof.collect.devices.host_source import HostSource, ProcessSource
from hvdprof.collect.devices.nvml import NvmlGpu
from hvdprof.collect.devices.sample_window import SampleWindow, Source, Values
from hvdprof.rundir.recording.recorder_codec import to_bytes

SAMPLES = 500


class _OneGpu(Source):
    scope = "device"

    def __init__(self, uuid: str) -> None:
        self._gpu = NvmlGpu(uuid)

    def read(self) -> Values:
        return self._gpu.read()


def cost_s(source: Source, num_samples: int = SAMPLES) -> float:
    """Processor seconds of a sample of a source, its share of the window's line included."""
    window = SampleWindow(source, 0)
    begin_s = time.thread_time()
    for second in range(1, num_samples + 1):
        window.sample(second * 1_000_000_000)
        if (line := window.line(second * 1_000_000_000)) is not None:
            to_bytes(line)
    return (time.thread_time() - begin_s) / num_samples


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per source, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--gpu", default="", help="UUID of a GPU, as nvidia-smi -L lists it")
    options = parser.parse_args(arguments)
    sources: dict[str, tuple[Source, int]] = {
        "rank": (ProcessSource(), options.ranks),
        "host": (HostSource(), 1),
    }
    if options.gpu:
        sources["GPU"] = _OneGpu(options.gpu), options.ranks
    total_s = 0.0
    for name, (source, number) in sources.items():
        each_s = cost_s(source)
        total_s += number * each_s
        sys.stdout.write(f"{name:<6} {1e6 * each_s:7.0f} us a sample\n")
    sys.stdout.write(
        f"host with {options.ranks} ranks, once a second: {100 * total_s:.3f} % of a core\n"
    )


if __name__ == "__main__":
    main()
