"""Records the runs that `benchmarks/prediction.py` predicts: scale models between limited hosts.

``python -m benchmarks.prediction_runs --folder DIR`` runs what DIR does not hold yet. Hosts are
network namespaces, each with one rank, whose links have a rate; models wait instead of computing,
so ranks need few cores, and have 1/256 of the gradients: VGG-16 over 100 Mbit/s transfers as long
as over 25.6 Gbit/s. Each run is a run directory ``CONTROLLER-RATE-npN``. Needs root.

``--dilation K`` lets everything that the job waits for take K times as long: forward and backward,
the links and Horovod's cycle. The ranks need the same processor time for that, so that K times as
many share a core. The method is that of Gupta et al., "To Infinity and Beyond: Time-Warped Network
Emulation" (NSDI 2006). Names keep the rate before dilation. The latency of the machine and the
processor time of a rank stay as they are, so they count 1/K.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.builders.network_hosts import NetworkHosts, network_hosts

DIVISOR = 256
MODELS = {"vgg16": 0.2, "resnet101": 0.3, "inception_v3": 0.22}
"""Seconds that forward and backward wait, by model: about what a V100 takes for 64 images."""

RATES_MBIT = (100, 50, 200, 25)
CONTROLLERS = ("gloo", "mpi")
FIT_SIZES = (1, 2, 4)
LARGER_SIZES = (8, 16)
BURST_S = 0.01
"""What a limiter lets through at once, as seconds of its rate. A real link has no such allowance,
so it is not dilated: of 0.01 s before dilation, a forecast of VGG-16 came out 8 % too slow."""

QUEUE_S = 0.1
"""How long the last byte of a full queue waits before dilation: as many bytes at any dilation."""

CYCLE_MS = 5.0
"""Of 2018. At 1 ms the negotiations of 16 ranks would fill both cores of a small machine."""

NUM_STEPS, NUM_STEPS_LARGER = 25, 8
"""Two launches of 25 steps on 2 ranks give 100 residuals, as many as the tail of the jitter needs.
The larger sizes are measured alone, and no jitter is fitted to them."""

FUSION_MB = 64 / DIVISOR

OPEN_MPI = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_tcp_eager_limit": str(4 * 2**20),
    "OMPI_MCA_btl_tcp_sndbuf": str(2**14),
    "OMPI_MCA_btl_tcp_rcvbuf": str(2**14),
}
"""Open MPI's ranks poll while they wait. Each believes to have a host alone, so none would let the
others of this machine run.

From 64 kB on, a message waits for an answer of its receiver. That is nothing beside whole models,
but with 1/256 of their bytes the answer waits behind as many in the other direction: VGG-16 over
100 Mbit/s took half as long again on two ranks as under Gloo. So all messages are sent at once.
Acknowledgements of TCP wait behind data, too: with buffers of the kernel's size, an allreduce of
1.6 MB on 4 ranks took 1.7 to 2.7 s instead of 1.6.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One run directory: numbers of ranks under one controller at one rate."""

    controller: str
    rate_mbit: int
    sizes: tuple[int, ...]
    dilation: float = 1.0

    @property
    def name(self) -> str:
        """The folder of the run."""
        return f"{self.controller}-{self.rate_mbit}-np{'-'.join(map(str, self.sizes))}"


def sweeps(dilation: float = 1.0) -> Iterator[Sweep]:
    """All runs, the fits and the smaller sizes first, so that a budget cuts the largest off."""
    for sizes in (FIT_SIZES, *((size,) for size in LARGER_SIZES)):
        for rate in RATES_MBIT:
            for controller in CONTROLLERS:
                yield Sweep(controller=controller, rate_mbit=rate, sizes=sizes, dilation=dilation)


def model_names(dilation: float = 1.0) -> list[str]:
    """The scale models as `hvdprof bench` takes them."""
    waits = {name: step_s * dilation for name, step_s in MODELS.items()}
    return [f"emulate:{name}:{DIVISOR}@{step_s:g}" for name, step_s in waits.items()]


def arguments_of(sweep: Sweep, hosts: str, folder: Path) -> list[str]:
    """The command line of a sweep; those that are fitted have two launches per number of ranks."""
    fitted = len(sweep.sizes) > 1
    return [
        *("bench", "--np", ",".join(map(str, sweep.sizes))),
        *("--models", ",".join(model_names(sweep.dilation))),
        *("--hosts", hosts, "--controller", sweep.controller, "--output", str(folder), "--quiet"),
        *(
            "--num-steps",
            str(NUM_STEPS if fitted else NUM_STEPS_LARGER),
            "--num-warmup-batches",
            "3",
            "--repeats",
            "2" if fitted else "1",
        ),
        *("--fusion-threshold-mb", f"{FUSION_MB:g}", "--cycle-time-ms"),
        f"{CYCLE_MS * sweep.dilation:g}",
        *("--batch-size", "64", "--image-size", "75", "--num-threads", "1"),
        *(() if fitted else ("--no-net",)),
    ]


def record(sweep: Sweep, folder: Path, hosts: NetworkHosts) -> None:
    """Run one sweep into ``folder`` / its name.

    Raises:
        subprocess.CalledProcessError: The sweep failed.
    """
    rate_mbit = sweep.rate_mbit / sweep.dilation
    hosts.limit(
        f"{rate_mbit:g}mbit",
        burst=f"{int(BURST_S * rate_mbit * 1e6 / 8)}b",
        latency=f"{QUEUE_S * sweep.dilation:g}s",
    )
    names = ",".join(f"{name}:1" for name in hosts.names[: max(sweep.sizes)])
    arguments = arguments_of(sweep, names, folder / sweep.name)
    command = hosts.hvdprof_command(*arguments, **OPEN_MPI)
    subprocess.run(command, check=True, timeout=1800 * sweep.dilation)


def main() -> None:
    """Record what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--controllers", default=",".join(CONTROLLERS))
    parser.add_argument("--rates", default=",".join(map(str, RATES_MBIT)), help="Mbit/s")
    parser.add_argument("--dilation", type=float, default=1.0, help="of all waits and links")
    parser.add_argument("--sizes", help="only runs up to this number of ranks", type=int)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    begin_s = time.monotonic()
    controllers, rates = options.controllers.split(","), options.rates.split(",")
    wanted = [
        sweep
        for sweep in sweeps(options.dilation)
        if sweep.controller in controllers and str(sweep.rate_mbit) in rates
    ]
    for sweep in wanted:
        done = options.folder / f"{sweep.name}.done"
        if done.exists() or (options.sizes and max(sweep.sizes) > options.sizes):
            continue
        if time.monotonic() - begin_s > options.budget:
            break
        with network_hosts(
            options.folder / "hosts" / sweep.name, max(sweep.sizes), one_core=True
        ) as hosts:
            started_s = time.monotonic()
            try:
                record(sweep, options.folder, hosts)
            except subprocess.SubprocessError as error:
                print(f"{sweep.name} failed: {error}", file=sys.stderr, flush=True)
                continue
        done.write_text(f"load {os.getloadavg()[0]:.1f}\n", encoding="utf-8")
        print(f"{sweep.name}: {time.monotonic() - started_s:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
