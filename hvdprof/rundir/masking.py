"""Secrets are replaced before anything about the environment or a command is written down.

Three things give a secret away: the name that it is assigned to, the form of a known token, and
the place in an address. A text may hold several, as ``sh -c "export TOKEN=x; python train.py"``
does, so every argument is searched as a text of its own. What looks like an ordinary word
stays: ``-p x`` names nothing.
"""

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
    "GOMP_",
    "KMP_",
    "TORCH_DISTRIBUTED_",
    "TORCH_GLOO_",
    "TORCH_NCCL_",
)
RECORDED_NAMES = frozenset(
    {
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_VISIBLE_DEVICES",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "PYTHONPATH",
    }
)
RECORDED_OF_SLURM = re.compile(
    r"SLURM_(JOB_|STEP_|ARRAY_)?"
    r"(ID|JOBID|STEPID|NAME|PARTITION|QOS|CLUSTER_NAME|NNODES|NODES|NUM_NODES|NODELIST|NODEID|"
    r"NODENAME|NTASKS|NUM_TASKS|NPROCS|PROCID|LOCALID|TASK_ID|CPUS?_\w+|CPUS|TASKS_PER_NODE|"
    r"NTASKS_PER_\w+|GPUS|GPUS_\w+|MEM_\w+|THREADS_PER_CORE|DISTRIBUTION|HINT|TOPOLOGY_ADDR|"
    r"MPI_TYPE|RESTART_COUNT|GTIDS|EXACT|OVERCOMMIT|KILL_BAD_EXIT)"
)
"""The variables of Slurm that say where and how a job runs; others, such as its JWT, do not."""

_SECRET_WORD = (
    r"(?:KEY|TOKEN|SECRET|PASSW|PASSPHRASE|(?<![A-Za-z])PASS(?![A-Za-z])|PWD|CREDENTIAL|AUTH|JWT|"
    r"COOKIE|BEARER|SIGNATURE|(?<![A-Za-z])(?:SAS|PAT|PW)(?![A-Za-z]))"
)
_HARMLESS_WORD = (
    r"TOKENI[SZ]|TOKENS|KEYPOINT|KEYWORD|KEYFRAME|MONKEY|HOTKEY|KEY_VALUE|KV_|AUTHOR(?!I)|"
    r"^(?:OLD)?PWD$"
)
_SECRET_NAME = re.compile(_SECRET_WORD, re.IGNORECASE)
_HARMLESS = re.compile(_HARMLESS_WORD, re.IGNORECASE)
_HARMLESS_VALUE = re.compile(r"(?:true|false|none|null|-?\d{1,3}(?:\.\d{1,6})?)?", re.IGNORECASE)

_NAME = r"[A-Za-z_][\w.\-]{0,127}"
_QUOTED = r'"(?:[^"\\]|\\.)*"|\'[^\']*\''
_ASSIGNMENT = re.compile(
    rf"(?<![\w.])(?!Authorization\b)(?P<name>{_NAME})(?P<gap>[\"']\s*:\s*|:\s+|=)"
    rf"(?P<value>{_QUOTED}|[^\s\"'&;,}}]+)",
    re.IGNORECASE,
)
"""``NAME=value`` of shells, options and query parameters, ``"name": "value"`` of JSON, headers."""

_OPTION = re.compile(rf"(?P<lead>(?<!\S)--?)(?P<name>{_NAME})(?P<gap>\s+)(?P<value>{_QUOTED}|\S+)")
"""``--name value`` in the text of one argument, such as the command of ``sh -c``."""

_WHOLE = re.compile(rf"^(?P<lead>\+{{0,2}}|--?)(?P<name>{_NAME})=(?P<value>.*)$", re.DOTALL)
"""An argument that is one assignment: its value may hold blanks."""

_USER_IN_ADDRESS = re.compile(r"(?<=://)(?:[^@\s/]{1,256}|[^@\s:/]{0,128}:[^@\s]{1,256})@")
_SCHEME = re.compile(
    r"\b(Authorization[\"']?\s*[:=]\s*[\"']?(?:(?:Bearer|Basic|Digest|Token|ApiKey)\s+)?|Bearer\s+)"
    r"[^\s\"']+",
    re.IGNORECASE,
)
_KNOWN_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|"
    r"glpat-[\w\-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|sk-[\w\-]{16,}|xox[abeprs]-[\w\-]{10,}|"
    r"AIza[\w\-]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[\w\-]{30,}|"
    r"eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*)"
)


def recorded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that shape a Horovod job, sorted by name, with secrets masked."""
    return {
        name: mask_value(name, environment[name])
        for name in sorted(environment)
        if name in RECORDED_NAMES
        or name.startswith(RECORDED_PREFIXES)
        or RECORDED_OF_SLURM.fullmatch(name)
    }


def mask_value(name: str, value: str) -> str:
    """The value of a variable or an option, masked where its name or its form says so.

    Args:
        name: Its name, also dotted or dashed; empty for a text without one.
        value: What it is set to; secrets inside of it are masked one by one.
    """
    return MASK if _is_secret(name, value) else mask_text(value)


def mask_text(text: str) -> str:
    """A text with the secrets that it assigns, sends or spells out replaced by ``***``."""
    found = _KNOWN_TOKEN.sub(MASK, _USER_IN_ADDRESS.sub(f"{MASK}@", text))
    found = _SCHEME.sub(lambda match: f"{match[1]}{MASK}", found)
    for form in (_ASSIGNMENT, _OPTION):
        found = form.sub(_masked, found)
    return found


def mask_command(arguments: Iterable[str]) -> list[str]:
    """An argument list without its secrets.

    Masked are ``NAME=value``, ``--name=value``, ``--name value``, ``-name value``, Hydra's
    ``a.b.name=value``, headers, query parameters, JSON, and the same inside of an argument.
    """
    masked: list[str] = []
    option = ""
    for argument in arguments:
        whole = _WHOLE.match(argument)
        if option and not argument.startswith("--") and _is_secret(option, argument):
            masked.append(MASK)
        elif whole:
            value = mask_value(whole["name"], whole["value"])
            masked.append(f"{whole['lead']}{whole['name']}={value}")
        else:
            masked.append(mask_text(argument))
        is_option = argument.startswith("-") and not whole and " " not in argument
        option = argument.lstrip("-") if is_option else ""
    return masked


def _is_secret(name: str, value: str) -> bool:
    if not value or not _SECRET_NAME.search(_HARMLESS.sub("", name)):
        return False
    # Numbers of heads and switches are named like secrets; secrets are neither.
    return not _HARMLESS_VALUE.fullmatch(value)


def _masked(match: re.Match[str]) -> str:
    groups = match.groupdict()
    value = groups["value"]
    quote = value[0] if value[0] in "\"'" else ""
    inner = value[1:-1] if quote else value
    shown = MASK if _is_secret(groups["name"], inner) else inner
    lead = groups.get("lead") or ""
    return f"{lead}{groups['name']}{groups['gap']}{quote}{shown}{quote}"
