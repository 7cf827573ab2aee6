"""The job of Kubernetes that measures some options, checked as far as this machine can."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from hvdprof.errors import UsageError
from hvdprof.launch.launchers.job_script import MOUNT, KubernetesJob
from hvdprof.launch.plan.bench_options import PRESETS, BenchOptions
from hvdprof.launch.plan.bench_settings import KnownModel, check_bench_options
from hvdprof.launch.plan.options import (
    PLACING_THEMSELVES,
    SRUN,
    TORCHRUN,
    arguments_of,
    check_options,
)
from hvdprof.launch.plan.preflight import AUTO
from hvdprof.launch.plan.run_options import MPIJOB, KubernetesOptions, RunOptions
from hvdprof.launch.run.run_folder import new_run_folder
from hvdprof.launch.run.script_command import script_name
from hvdprof.launch.run.script_run import check_script_options, sizes_of

_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


def kubernetes_job(
    options: BenchOptions | RunOptions,
    place: KubernetesOptions,
    models: Mapping[str, KnownModel],
    *,
    display: Sequence[str] = (),
    metrics_port: int | None = None,
) -> KubernetesJob:
    """The job that measures these options in a cluster; ``text()`` is its manifest.

    The script is looked for in the image alone, by the pods.

    Args:
        options: What to measure.
        place: Where.
        models: The reference models.
        display: More words of the command line.
        metrics_port: The port on which figures are served, if any.

    Raises:
        UsageError: An option cannot be used, or is missing.
    """
    _check_place(options, place)
    if isinstance(options, BenchOptions):
        settings = check_bench_options(options, models)
        _require_sizes(options)
        command, name = "bench", options.name
        num_ranks, num_threads = max(settings.sizes), settings.num_threads
    else:
        check_script_options(options)
        command, name = "run", options.name or script_name(options.command)
        num_ranks, num_threads = max(sizes_of(options)), options.num_threads or 1
        if place.kind != MPIJOB and options.launcher == AUTO:
            options = replace(options, launcher=TORCHRUN)
    folder = PurePosixPath(MOUNT, options.output or new_run_folder(None, name).name)
    return KubernetesJob(
        kind=place.kind or MPIJOB,
        command=[
            *("hvdprof", command, "--output", str(folder)),
            *display,
            *arguments_of(replace(options, output=None)),
        ],
        name=name,
        num_ranks=num_ranks,
        pod_ranks=place.pod_ranks,
        rank_cores=num_threads,
        has_gpus=options.device == "cuda",
        image=place.image or "",
        claim=place.claim or "",
        namespace=place.namespace or "",
        metrics_port=metrics_port,
    )


def _check_place(options: BenchOptions | RunOptions, place: KubernetesOptions) -> None:
    check_options(place)
    missing = [f"--{name}" for name in ("image", "claim") if not getattr(place, name)]
    if missing:
        raise UsageError(
            f"--kubernetes {place.kind} needs {' and '.join(missing)}.",
            hint="--image IMAGE --claim CLAIM: without a volume the result ends with its pod.",
        )
    for flag, value in (("--claim", place.claim), ("--namespace", place.namespace)):
        if value and _DNS_LABEL.fullmatch(value) is None:
            raise UsageError(f"{flag} {value!r} is not a name of Kubernetes.", hint="As my-runs.")
    if options.hosts is not None:
        raise UsageError("The hosts of a Kubernetes job are its pods.", hint="Omit --hosts.")
    if options.launcher == SRUN:
        raise UsageError("srun is Slurm's.", hint="Omit --launcher, or use --sbatch.")
    if options.launcher in PLACING_THEMSELVES:
        raise UsageError(f"{options.launcher} is of another system.", hint="Omit --launcher.")
    if isinstance(options, RunOptions) and options.is_elastic:
        raise UsageError(
            "An elastic job changes its hosts, and --kubernetes writes a fixed number of pods.",
            hint="Write a manifest of your own around hvdprof run.",
        )
    if options.output is not None and PurePosixPath(options.output).is_absolute():
        raise UsageError(
            f"--output {options.output} would lie outside the volume, which is {MOUNT} in the "
            "pods.",
            hint=f"Give a relative path: --output {PurePosixPath(options.output).name}",
        )


def _require_sizes(options: BenchOptions) -> None:
    # The cores of this machine are not those of the pods.
    if options.np is None and PRESETS[options.preset].sizes is None:
        raise UsageError(
            "--kubernetes asks for as many pods as the largest number of ranks needs, which is "
            "not given.",
            hint="Add --np 1,2,4,8.",
        )
