"""``hvdprof bench``: the main job."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hvdprof.bench_models.registry import MODELS
from hvdprof.cli.progress.bench_preview import announce, print_commands
from hvdprof.cli.progress.bench_progress import observer_for
from hvdprof.cli.shared.measured import measure_and_report, refuse_other_settings
from hvdprof.cli.shared.measuring_options import (
    MEASURING,
    OUTPUT,
    DryRun,
    Format,
    Net,
    Quiet,
    Resume,
    RunFolder,
    Sbatch,
    StallKill,
    StallWarn,
)
from hvdprof.cli.shared.sbatch import Queued, write_and_submit
from hvdprof.errors import UsageError
from hvdprof.launch.launchers.choose_launcher import AUTO, LAUNCHER_NAMES
from hvdprof.launch.plan.choices import Choices, KnownModel, check
from hvdprof.launch.plan.presets import PRESETS
from hvdprof.launch.plan.settings import DEFAULT_STALL_WARN_S
from hvdprof.launch.run.bench_run import (
    RUNS_FOLDER,
    find_tools,
    make_run_folder,
    new_run_folder,
    prepare,
    read_for_resuming,
    sweep_of,
)
from hvdprof.report.formats import reporter_for
from hvdprof.rundir.layout import RunPaths

DESIGN = "Design"
HOROVOD = "Horovod's knobs"

KNOWN_MODELS = {
    model.name: KnownModel(
        default_batch_size=model.batch_size,
        default_image_size=model.image_size,
        min_image_size=model.min_image_size,
        fixed_image_size=model.max_image_size is not None,
    )
    for model in MODELS
}
_PRESET_HELP = "; ".join(f"{name}: {preset.summary}" for name, preset in PRESETS.items())


def bench(
    context: typer.Context,
    np: Annotated[
        str | None,
        typer.Option("--np", help="Numbers of ranks, such as 1,2,4,8.", rich_help_panel=DESIGN),
    ] = None,
    models: Annotated[
        str | None, typer.Option(help=f"Any of {', '.join(KNOWN_MODELS)}.", rich_help_panel=DESIGN)
    ] = None,
    compression: Annotated[
        str | None, typer.Option(help="Gradient compression: none,fp16.", rich_help_panel=DESIGN)
    ] = None,
    fp16_allreduce: Annotated[
        bool,
        typer.Option("--fp16-allreduce", help="Add fp16 to --compression.", rich_help_panel=DESIGN),
    ] = False,
    reduction: Annotated[
        str | None,
        typer.Option(help="Reduction of the gradients: average,adasum.", rich_help_panel=DESIGN),
    ] = None,
    use_adasum: Annotated[
        bool,
        typer.Option("--use-adasum", help="Add adasum to --reduction.", rich_help_panel=DESIGN),
    ] = False,
    engine: Annotated[
        str | None,
        typer.Option(
            help="What reduces the gradients: horovod,ddp; horovod when not given. ddp is "
            "PyTorch's DistributedDataParallel, for comparison, on this host.",
            rich_help_panel=DESIGN,
        ),
    ] = None,
    scaling: Annotated[
        str,
        typer.Option(
            help="weak: the batch size counts a rank; strong: all ranks together.",
            rich_help_panel=DESIGN,
        ),
    ] = "weak",
    preset: Annotated[str, typer.Option(help=_PRESET_HELP, rich_help_panel=DESIGN)] = "standard",
    hosts: Annotated[
        str | None,
        typer.Option(
            help="Hosts with slots, such as h1:4,h2:4; this host alone when not given.",
            rich_help_panel=DESIGN,
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="Samples a step; each model's own when not given.", rich_help_panel=MEASURING
        ),
    ] = None,
    image_size: Annotated[
        int | None,
        typer.Option(
            help="Edge of the input image in pixels (mnist is always 28).",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    num_warmup_batches: Annotated[
        int | None,
        typer.Option(
            help="Steps before measuring; more are cut where the steps say so.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    num_steps: Annotated[
        int | None, typer.Option(help="Measured steps of a launch.", rich_help_panel=MEASURING)
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(help="Measured seconds of a launch and model.", rich_help_panel=MEASURING),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            help="Launches of every configuration, interleaved.", rich_help_panel=MEASURING
        ),
    ] = None,
    num_threads: Annotated[
        int | None,
        typer.Option(
            help="Threads of a rank, the same at every number of ranks.", rich_help_panel=MEASURING
        ),
    ] = None,
    attribution: Annotated[
        bool,
        typer.Option(
            "--attribution",
            help="Add a pass without Horovod's response cache, whose timeline names late ranks.",
            rich_help_panel=MEASURING,
        ),
    ] = False,
    data: Annotated[
        str,
        typer.Option(
            help="synthetic, or digits: scikit-learn's handwritten ones.", rich_help_panel=MEASURING
        ),
    ] = "synthetic",
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder with MNIST's IDX files, used instead of --data.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto, cpu or cuda.", rich_help_panel=MEASURING)
    ] = "auto",
    seed: Annotated[
        int, typer.Option(help="Seed of weights and data.", rich_help_panel=MEASURING)
    ] = 42,
    timeout: Annotated[
        float,
        typer.Option(
            help="Seconds without any progress after which a launch is ended as hung.",
            rich_help_panel=MEASURING,
        ),
    ] = 300.0,
    stall_warn: StallWarn = DEFAULT_STALL_WARN_S,
    stall_kill: StallKill = None,
    controller: Annotated[
        str,
        typer.Option(
            help="auto, gloo or mpi; auto takes MPI where it works.", rich_help_panel=HOROVOD
        ),
    ] = "auto",
    launcher: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(LAUNCHER_NAMES)}; auto is mpirun for mpi and horovodrun for gloo.",
            rich_help_panel=HOROVOD,
        ),
    ] = AUTO,
    fusion_threshold_mb: Annotated[
        float | None, typer.Option(help="HOROVOD_FUSION_THRESHOLD.", rich_help_panel=HOROVOD)
    ] = None,
    cycle_time_ms: Annotated[
        float | None, typer.Option(help="HOROVOD_CYCLE_TIME.", rich_help_panel=HOROVOD)
    ] = None,
    cache_capacity: Annotated[
        int | None, typer.Option(help="HOROVOD_CACHE_CAPACITY.", rich_help_panel=HOROVOD)
    ] = None,
    net: Net = True,
    sbatch: Sbatch = False,
    output: RunFolder = None,
    name: Annotated[
        str, typer.Option(help="A name for the run.", rich_help_panel=OUTPUT)
    ] = "bench",
    resume: Resume = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    format_: Format = "terminal",
) -> None:
    """Run the reference models over numbers of ranks and tell how well they scale."""
    reporter = reporter_for(format_)
    observer = observer_for(sys.stderr, quiet=quiet)
    choices = Choices(
        preset=preset,
        np=np,
        models=models,
        compression=compression,
        fp16_allreduce=fp16_allreduce,
        reduction=reduction,
        use_adasum=use_adasum,
        batch_size=batch_size,
        image_size=image_size,
        num_warmup_batches=num_warmup_batches,
        num_steps=num_steps,
        max_seconds=max_seconds,
        repeats=repeats,
        scaling=scaling,
        hosts=hosts,
        num_threads=num_threads,
        fusion_threshold_mb=fusion_threshold_mb,
        cycle_time_ms=cycle_time_ms,
        cache_capacity=cache_capacity,
        data=data,
        data_dir=data_dir,
        attribution=attribution,
        seed=seed,
        timeout_s=timeout,
        launcher=launcher,
        stall_warn_s=stall_warn,
        stall_kill_s=stall_kill,
        engine=engine,
    )
    asked = check(choices, KNOWN_MODELS)
    if data_dir is not None:
        _check_digits(data_dir)
    if resume is not None:
        refuse_other_settings(context)
        manifest, folder, tools = read_for_resuming(resume), resume, find_tools()
    else:
        if sbatch:
            _require_sizes(np, preset)
            write_and_submit(
                context,
                Queued(
                    command="bench",
                    name=name,
                    folder=new_run_folder(output, name),
                    launcher=asked.launcher,
                    num_ranks=max(asked.sizes),
                    cpus_per_task=asked.num_threads,
                ),
            )
            return
        tools = find_tools()
        manifest = prepare(choices, KNOWN_MODELS, tools, controller=controller, device=device)
        # It is made once the launcher is known to be there.
        folder = output or RUNS_FOLDER / "RUN"
    sweep = sweep_of(manifest, folder, tools, observer)
    if dry_run:
        print_commands(sweep, sys.stdout)
        return
    if resume is None:
        sweep.paths = RunPaths(make_run_folder(manifest, output, name))
    if not quiet:
        announce(manifest, sweep.paths.folder, sys.stderr)
    measure_and_report(sweep, reporter, net=net)


def _require_sizes(np: str | None, preset: str) -> None:
    # The cores of this node say nothing of what the job is to ask for.
    if np is None and PRESETS[preset].sizes is None:
        raise UsageError(
            "--sbatch asks for room for the largest number of ranks, which nothing names.",
            hint="Add --np 1,2,4,8.",
        )


def _check_digits(folder: Path) -> None:
    # Imports torch: only where the files are asked for.
    from hvdprof.bench_models.digit_data import idx_digits

    idx_digits(folder)
