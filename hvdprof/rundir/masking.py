"""Secrets are replaced before anything about the environment is written down."""

import re
from collections.abc import Iterable, Mapping

MASK = "***"
RECORDED_PREFIXES = (
    "HOROVOD_",
    "HVDPROF_",
    "NCCL_",
    "OMP_",
    "OMPI_MCA_",
    "MKL_",
    "GLOO_",
    "SLURM_",
)
RECORDED_NAMES = frozenset({"CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"})

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+@")
_ASSIGNMENT = re.compile(r"^(--?)?([A-Za-z_][\w-]*)=(.*)$", re.DOTALL)


def recorded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that shape a Horovod job, sorted by name, with secrets masked."""
    return {
        name: mask_value(name, environment[name])
        for name in sorted(environment)
        if name in RECORDED_NAMES or name.startswith(RECORDED_PREFIXES)
    }


def mask_value(name: str, value: str) -> str:
    """The value of a variable, masked when its name or its form says it is secret."""
    if _SECRET_NAME.search(name) and value:
        return MASK
    return _USER_IN_ADDRESS.sub(f"{MASK}@", value)


def mask_command(arguments: Iterable[str]) -> list[str]:
    """An argument list in which ``NAME=value`` and ``--name value`` of secrets are masked."""
    masked: list[str] = []
    next_is_secret = False
    for argument in arguments:
        assignment = _ASSIGNMENT.match(argument)
        if next_is_secret:
            masked.append(MASK)
        elif assignment:
            dashes, name, value = assignment.groups()
            masked.append(f"{dashes or ''}{name}={mask_value(name, value)}")
        else:
            masked.append(mask_value("", argument))
        next_is_secret = (
            argument.startswith("--") and not assignment and bool(_SECRET_NAME.search(argument))
        )
    return masked
