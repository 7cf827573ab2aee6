"""``hvdprof run``: the user's own script, unmodified."""

import sys
from pathlib import Path
from typing import Annotated

import typer

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
from hvdprof.launch.plan.choices import parse_sizes
from hvdprof.launch.plan.settings import DEFAULT_STALL_WARN_S, ElasticSettings
from hvdprof.launch.run.bench_run import (
    RUNS_FOLDER,
    find_tools,
    make_run_folder,
    new_run_folder,
    read_for_resuming,
    sweep_of,
)
from hvdprof.launch.run.script_run import (
    ScriptChoices,
    check_script_choices,
    prepare_script,
    script_name,
)
from hvdprof.report.formats import reporter_for
from hvdprof.rundir.layout import RunPaths

ELASTIC = "Elastic jobs"


def run(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="The script after `--`, as one rank starts it: python train.py ARGS.",
            show_default=False,
        ),
    ] = None,
    np: Annotated[
        str | None,
        typer.Option("--np", "-np", help="Number of ranks, or several: 1,2,4.", show_default=False),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts", "-H", help="Hosts with slots, such as h1:4,h2:4; this host when not given."
        ),
    ] = None,
    min_np: Annotated[
        int | None,
        typer.Option(
            "--min-np",
            help="Elastic: ranks without which the job waits.",
            rich_help_panel=ELASTIC,
        ),
    ] = None,
    max_np: Annotated[
        int | None,
        typer.Option(
            "--max-np",
            help="Elastic: ranks beyond which none is added.",
            rich_help_panel=ELASTIC,
        ),
    ] = None,
    host_discovery_script: Annotated[
        str | None,
        typer.Option(
            help="Elastic: prints the hosts that are there now, one a line: server1:4.",
            rich_help_panel=ELASTIC,
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            help="Elastic: slots of hosts that stand without a number.", rich_help_panel=ELASTIC
        ),
    ] = None,
    network_interface: Annotated[
        str | None,
        typer.Option(
            help="Elastic: interfaces that all hosts share, such as eth0; without it the job "
            "starts when two hosts are there.",
            rich_help_panel=ELASTIC,
        ),
    ] = None,
    elastic_timeout: Annotated[
        int | None,
        typer.Option(
            help="Elastic: seconds to wait for --min-np ranks; Horovod's 600.",
            rich_help_panel=ELASTIC,
        ),
    ] = None,
    reset_limit: Annotated[
        int | None,
        typer.Option(
            help="Elastic: resets after which the job is ended; none.", rich_help_panel=ELASTIC
        ),
    ] = None,
    controller: Annotated[
        str, typer.Option(help="auto, gloo or mpi; auto takes MPI where it works.")
    ] = "auto",
    launcher: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(LAUNCHER_NAMES)}; srun inside a Slurm allocation.",
        ),
    ] = AUTO,
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="Samples of a rank and step; seen in the batches when not given.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    num_warmup_batches: Annotated[
        int,
        typer.Option(
            help="Steps before measuring; more are cut where the steps say so.",
            rich_help_panel=MEASURING,
        ),
    ] = 5,
    num_steps: Annotated[
        int | None,
        typer.Option(
            help="Measured steps after which the script is ended; to its own end when not given.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(help="Launches at every number of ranks.", rich_help_panel=MEASURING),
    ] = 1,
    trace: Annotated[
        bool,
        typer.Option(
            help="Add a launch in which Horovod writes its timeline.", rich_help_panel=MEASURING
        ),
    ] = True,
    timeline_steps: Annotated[
        int,
        typer.Option(help="Steps that the timeline holds.", rich_help_panel=MEASURING),
    ] = 50,
    num_threads: Annotated[
        int | None,
        typer.Option(
            help="OMP_NUM_THREADS of a rank; left as it is when not given.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="auto, cpu or cuda: what ranks share for the count of slots.",
            rich_help_panel=MEASURING,
        ),
    ] = "auto",
    timeout: Annotated[
        float,
        typer.Option(
            help="Seconds without a recorded step after which a launch is ended as hung.",
            rich_help_panel=MEASURING,
        ),
    ] = 1800.0,
    stall_warn: StallWarn = DEFAULT_STALL_WARN_S,
    stall_kill: StallKill = None,
    net: Net = True,
    sbatch: Sbatch = False,
    output: RunFolder = None,
    name: Annotated[
        str | None,
        typer.Option(help="A name for the run; the script's.", rich_help_panel=OUTPUT),
    ] = None,
    resume: Resume = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    format_: Format = "terminal",
) -> None:
    """Run a Horovod script as it is, and tell how well it scales and where its time goes."""
    reporter = reporter_for(format_)
    observer = observer_for(sys.stderr, quiet=quiet)
    if resume is not None:
        refuse_other_settings(context)
        manifest, folder, tools = read_for_resuming(resume), resume, find_tools()
    else:
        elastic = _elastic(
            min_np=min_np,
            max_np=max_np,
            script=host_discovery_script,
            slots=slots,
            network_interface=network_interface,
            wait_s=elastic_timeout,
            reset_limit=reset_limit,
        )
        if elastic is not None and np is None:
            np = str(elastic.min_np)
        if not command or np is None:
            raise UsageError(
                "Needed are the number of ranks and the script.",
                hint="hvdprof run --np 1,2 -- python train.py",
            )
        choices = ScriptChoices(
            command=tuple(command),
            np=np,
            hosts=hosts,
            batch_size=batch_size,
            num_warmup_batches=num_warmup_batches,
            num_steps=num_steps,
            num_timeline_steps=timeline_steps,
            repeats=repeats,
            trace=trace,
            num_threads=num_threads,
            timeout_s=timeout,
            launcher=launcher,
            stall_warn_s=stall_warn,
            stall_kill_s=stall_kill,
            elastic=elastic,
        )
        name = name or script_name(choices.command)
        if sbatch:
            _queue(context, choices, new_run_folder(output, name), name)
            return
        tools = find_tools()
        manifest = prepare_script(choices, tools, controller=controller, device=device)
        manifest.name = name
        # It is made once the launcher is known to be there.
        folder = output or RUNS_FOLDER / "RUN"
    sweep = sweep_of(manifest, folder, tools, observer)
    if dry_run:
        print_commands(sweep, sys.stdout)
        return
    if resume is None:
        sweep.paths = RunPaths(make_run_folder(manifest, output, manifest.name))
    if not quiet:
        announce(manifest, sweep.paths.folder, sys.stderr)
    measure_and_report(sweep, reporter, net=net)


def _queue(context: typer.Context, choices: ScriptChoices, folder: Path, name: str) -> None:
    check_script_choices(choices)
    if choices.elastic is not None:
        raise UsageError(
            "An elastic job is started by horovodrun, and --sbatch asks for ranks of srun.",
            hint="Write a job script of your own around hvdprof run.",
        )
    write_and_submit(
        context,
        Queued(
            command="run",
            name=name,
            folder=folder,
            launcher=choices.launcher,
            num_ranks=max(parse_sizes(choices.np)),
            cpus_per_task=choices.num_threads or 1,
        ),
    )


def _elastic(
    *,
    min_np: int | None,
    max_np: int | None,
    script: str | None,
    slots: int | None,
    network_interface: str | None,
    wait_s: int | None,
    reset_limit: int | None,
) -> ElasticSettings | None:
    """The settings of an elastic job; None where no option asks for one."""
    if script is None:
        given = (min_np, max_np, slots, network_interface, wait_s, reset_limit)
        if all(one is None for one in given):
            return None
        raise UsageError(
            "An elastic job needs a script that names its hosts.",
            hint="hvdprof run --min-np 1 --max-np 4 --host-discovery-script ./discover.sh -- ...",
        )
    return ElasticSettings(
        min_np=min_np or 1,
        max_np=max_np,
        discovery_script=script,
        slots=slots,
        network_interface=network_interface,
        wait_s=wait_s,
        reset_limit=reset_limit,
    )
