"""Secrets are replaced before anything about the environment or a command is written down.

Two things give a secret away (``secret_forms``): its own form, and the name that it is assigned to,
up to where its value ends. A text may hold several, as ``sh -c "export TOKEN=x; python train.py"``
does. What looks like an ordinary word stays: ``-p x`` names nothing.
"""

import re
from collections.abc import Iterable, Mapping

from hvdprof.rundir.secret_forms import (
    MASK,
    Style,
    is_secret,
    is_secret_name,
    is_working_folder,
    mask_forms,
    value_end,
)

_NUL = "\0"
_SEPARATORS = (";", "&", "?", ",")
RECORDED_PREFIXES = (
    *("HOROVOD_", "HVDPROF_", "NCCL_", "OMP_", "OMPI_MCA_", "MKL_", "GLOO_", "GOMP_", "KMP_"),
    *("TORCH_DISTRIBUTED_", "TORCH_GLOO_", "TORCH_NCCL_"),
)
RECORDED_NAMES = frozenset(
    {
        *("CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES", "PYTHONPATH"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD"),
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

_RUN = re.compile(r"[\w.\-]+")
_LONGEST_NAME = 128
_ASSIGNED = re.compile(
    r"(?P<closed>(?:\\*[\"'`]|&quot;)?)[\])]*[ \t]*\0?(?:[:+?]=|=>|(?P<colon>:)|=|%(?:25)*3[AD])"
    r"(?P<gap>[ \t]*\0?(?:\n\s*(?=\\*[\"'\[{])|(?=\n))?)",
    re.IGNORECASE,
)
"""``NAME=value`` of shells, options and query parameters, ``"name": "value"`` of JSON, headers."""

_PAIRED = re.compile(
    r"(?:\\*[\"'])?[\s,;]*(?:\\*[\"'])?\b(?:value|val|data)(?:\\*[\"'])?\s*(?:(?P<colon>:)|=)\s*",
    re.IGNORECASE,
)
"""``{"name": "TOKEN", "value": "..."}``"""

_LISTED = re.compile(r"\\*[\"'][\])]?\s*,?\s*(?=\\*[\"'\[{(](?!--))")
"""``["--token", "..."]``, ``setenv("TOKEN", "...")``"""

_ELEMENT = re.compile(r"[^<>\0]{0,200}>")
_NEXT_WORD = re.compile(r"(?P<closed>(?:\\*[\"'])?)(?:[ \t\n\0]|\\\n)+(?!--)")
"""The gap of ``--name value``, also where the value is the next argument."""

_SETS_NEXT = re.compile(
    r"\b(?:setenv|setx|ENV|config(?:ure[\s\0]+set)?|(?:login|machine)[\s\0]+[^\s\0]+|WITH|"
    r"set(?:[\s\0]+--?\w+)+)(?:[\s\0]+--?\w+)*[\s\0]+\Z"
)
"""Words after which a name and a value follow as words: those of shells, netrc and SQL."""

_PLURAL = re.compile(r"-.*(?:token|key|secret|password|cookie|cred|credential|pat)s", re.IGNORECASE)
_MORE = re.compile(r"(?:\0(?!-)[^\0]+)*(?:[ \t]+(?!-)[^\s\0;&|]+)*")
_OPENED = re.compile(r"\\*[\"'`]\Z")
_HEADER = re.compile(r"authorization|cookies?", re.IGNORECASE)
_SCHEME = re.compile(r"(?:Bearer|Basic|Digest|Token|ApiKey|Negotiate)\s+(?=\S)", re.IGNORECASE)
_SCALAR = re.compile(r"([\w.\-]+|\*{3})[ \t]*[,}\])#\n]")
_STRING = re.compile(r"(\\*[\"'`])(.*)\1", re.DOTALL)


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
    """The value of a variable or an option, masked where its name or its form says so."""
    if is_secret(name, value) and not is_working_folder(name, value):
        return MASK
    return mask_text(value)


def mask_command(arguments: Iterable[str]) -> list[str]:
    """An argument list without its secrets, as long as it was; see ``mask_text``."""
    words = [word.replace(_NUL, " ") for word in arguments]
    return mask_text(_NUL.join(words)).split(_NUL) if words else []


def mask_text(text: str) -> str:
    """A text with the secrets that it assigns, sends or spells out replaced by ``***``.

    Masked are values behind the names of secrets, as shells, options, Hydra, headers, addresses,
    connection strings, JSON, YAML, INI, XML and Python write them; NUL separates arguments.
    """
    found = mask_forms(text)
    pieces: list[str] = []
    copied = position = 0
    limit = -1
    while run := _RUN.search(found, position):
        begin, position = run.span()
        name = run[0][-_LONGEST_NAME:]
        place = _place(found, begin, position) if is_secret_name(name) else None
        if place is None:
            continue
        start, style, quote = place
        if limit < start:
            limit = found.find(_NUL, start) % (len(found) + 1)
        end = value_end(found, start, limit, style, quote)
        is_one_of_pair = name == "key" and _PAIRED.match(found, end)
        if is_one_of_pair or _is_harmless(found, run, style, found[start:end].rstrip()):
            continue
        if _PLURAL.fullmatch(name) and (more := _MORE.match(found, end)):
            end = more.end()
        value = found[start:end].rstrip()
        pieces += found[copied:start], _shown(name, value)
        copied = position = start + len(value)
    return "".join([*pieces, found[copied:]])


def _place(text: str, begin: int, end: int) -> tuple[int, Style, str] | None:
    """Where the value of a name begins, what ends it, and the mark of the string that holds both.

    None where no value follows.
    """
    before = text[begin - 1 : begin]
    opening = _OPENED.search(text, max(0, begin - 8), begin)
    opened = opening[0] if opening else ""
    if before == "<" and (element := _ELEMENT.match(text, end)):
        return (element.end() if element[0] == ">" else end), Style.ELEMENT, ""
    if assigned := _ASSIGNED.match(text, end):
        start, gap = assigned.end(), assigned["gap"]
        if _NUL in gap:
            return None if text.startswith("-", start) else (start, Style.ARGUMENT, "")
        is_plain = not (assigned["closed"] or assigned["colon"] or gap)
        if is_plain and text[max(0, begin - 3) : begin].rstrip("+")[-1:] in ("", _NUL):
            return start, Style.ARGUMENT, ""
        quote = "" if assigned["closed"] else opened
        is_field = assigned["closed"] and assigned["colon"]
        is_line = is_field or gap or text.startswith("\n", start)
        is_rest = is_line or quote or _HEADER.search(text, begin, end)
        return start, Style.REST if is_rest else Style.WORD, quote
    is_option = text[begin] == "-" and (not before.strip(f" \t\n{_NUL}") or opened)
    takes_next = is_option or _SETS_NEXT.search(text, max(0, begin - 80), begin)
    if takes_next and (gap_before := _NEXT_WORD.match(text, end)):
        style = Style.ARGUMENT if _NUL in gap_before[0] else Style.WORD
        return gap_before.end(), style, "" if gap_before["closed"] else opened
    if paired := _PAIRED.match(text, end):
        return paired.end(), Style.REST if paired["colon"] else Style.WORD, ""
    listed = _LISTED.match(text, end) if opened else None
    return (listed.end(), Style.REST, "") if listed else None


def _is_harmless(text: str, run: re.Match[str], style: Style, value: str) -> bool:
    """Whether a value is no secret: a switch, a small number, a size or a shell's own folder."""
    string, scalar = _STRING.fullmatch(value), _SCALAR.match(value)
    inner = string[2] if string else scalar[1] if scalar and style is Style.REST else value
    is_variable = text[run.start() - 1 : run.start()] not in _SEPARATORS and text[run.end()] == "="
    is_folder = is_variable and is_working_folder(run[0], inner)
    return is_folder or not is_secret(run[0][-_LONGEST_NAME:], inner)


def _shown(name: str, value: str) -> str:
    string = _STRING.fullmatch(value)
    mark, inner = string.groups() if string else ("", value)
    scheme = _SCHEME.match(inner) if "authorization" in name.lower() else None
    masks = _NUL.join(MASK for _ in inner.split(_NUL))
    return f"{mark}{scheme[0] if scheme else ''}{masks}{mark}"
