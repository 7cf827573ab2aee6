"""Log prefixes: what launchers and terminals put around the output of a rank, tags and colours.

Launchers put a tag before each line and sometimes into the middle of one: Open MPI writes
``[1,0]<stdout>:`` (version 5 with a blank behind it, and on request the names of the job, host and
process) and a date before it where asked to, Horovod's own launcher ``[0]<stdout>:``, SageMaker
``[1,mpirank:0,algo-1]<stdout>:``, ``srun -l`` ``0: ``, ``torch.distributed`` ``[rank0]: ``. The
forms of services that keep logs, and those that take more than one line to recognise, are in
``hvdprof.ingest.text.prefix_forms``.
"""

import re

_DATE = r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} [\d:]{8} \d{4})"
_STREAM = r"<std(?:out|err|diag)>:"

TAG = re.compile(
    rf"(?:{_DATE}|\[{_DATE}\])?"
    r"\[(?:[\w.@-]{1,300},)?(?:mpirank:)?(?P<rank>\d{1,7})(?:,[\w-]{1,100})?\]"
    rf"(?:\[[\w.-]{{1,253}}:\w{{1,9}}\])?{_STREAM}"
)
"""The tag of mpirun, horovodrun or SageMaker, with its date where one is printed."""

TAG_AND_BLANK = re.compile(TAG.pattern + " ?")
"""The same with the blank of Open MPI 5."""

DATE_TAG = re.compile(rf"(?:{_DATE}|\[{_DATE}\]){_STREAM} ?")
"""What Open MPI writes for ``--output timestamp`` alone: no rank is in it."""

# Horovod's lists of stalled ranks look alike: `1: [name, name]`.
SRUN_TAG = re.compile(r"^ {0,4}(?P<rank>\d{1,5}): (?!\[[^\]]*\]?\s*$)")
"""The number that ``srun -l`` puts before a line."""

_HYDRA_TAG = re.compile(r"\[(?P<rank>\d{1,5})\] ")
TORCH_TAG = re.compile(r"\[rank(?P<rank>\d{1,7})\]: ?")
"""What PyTorch puts before the lines of an exception of a rank."""

_TERMINAL = re.compile(
    r"(?:\x1b|\^\[|#033)\[[0-9;:?]*[ -/]?[A-Za-z]"
    r"|\x1b\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)?"
    r"|\x1b(?:[()*+#%][0-9A-Z]|[=>78cDEHMNOZ\\])"
)


def without_colours(text: str) -> str:
    """A text without the sequences that set colours, titles and links of a terminal.

    ``cat -v`` and journals show the escape of colours as ``^[``, rsyslog as ``#033``.
    """
    return _TERMINAL.sub("", text) if has_escape(text) else text


def has_escape(text: str) -> bool:
    """Whether a text may hold such sequences."""
    return "\x1b" in text or "^[[" in text or "#033[" in text


def split_rank(line: str) -> tuple[int | None, str]:
    """The rank in the tag that begins a line of a launch by hvdprof, and the line without tags.

    The rank is None where the line begins with no tag: then the launcher wrote it.
    """
    for pattern in (TAG, TORCH_TAG, _HYDRA_TAG, SRUN_TAG):
        tag = pattern.match(line)
        if tag is not None:
            return int(tag["rank"]), TAG.sub("", line[tag.end() :])
    return None, TAG.sub("", line)


def tagged_rank(prefix: str) -> int | None:
    """The rank in the last launcher's tag of a log prefix; ``None`` where there is no tag.

    Hydra's tag counts where the prefix holds no other text: NCCL itself writes no ``[0] `` there.
    """
    ranks = [tag["rank"] for tag in TAG.finditer(prefix)]
    if ranks:
        return int(ranks[-1])
    tag = SRUN_TAG.match(prefix) or _HYDRA_TAG.fullmatch(prefix)
    return int(tag["rank"]) if tag else None
