"""Log prefixes: what launchers and terminals put around the output of a rank, tags and colours.

Launchers put a tag before each line and sometimes into the middle of one: Open MPI writes
``[1,0]<stdout>:`` (version 5 with a blank behind it) and a date before it where asked to, Horovod's
own launcher ``[0]<stdout>:``, SageMaker ``[1,mpirank:0,algo-1]<stdout>:``, ``srun -l`` ``0: ``,
``torch.distributed`` ``[rank0]: ``. Whether Hydra wrote a ``[0] `` takes more than one line to
decide: ``hvdprof.ingest.text.hydra_prefixes``.
"""

import re

_DATE = r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} [\d:]{8} \d{4})"

TAG = re.compile(
    rf"{_DATE}?\[(?:\d+,)?(?:mpirank:)?(?P<rank>\d{{1,7}})(?:,[\w-]+)?\]<std(?:out|err)>:"
)
"""The tag of mpirun, horovodrun or SageMaker, with its date where one is printed."""

TAG_AND_BLANK = re.compile(TAG.pattern + " ?")
"""The same with the blank of Open MPI 5."""

# Horovod's lists of stalled ranks look alike: `1: [name, name]`.
SRUN_TAG = re.compile(r"^ {0,4}(?P<rank>\d{1,5}): (?!\[(?!\d{4}-\d\d-|[TDIWEF] ))")
"""The number that ``srun -l`` puts before a line."""

_HYDRA_TAG = re.compile(r"\[(?P<rank>\d{1,5})\] ")
_TORCH_TAG = re.compile(r"\[rank(?P<rank>\d{1,7})\]: ?")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def without_colours(text: str) -> str:
    """A text without the sequences that set the colours of a terminal."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def split_rank(line: str) -> tuple[int | None, str]:
    """The rank in the tag that begins a line of a launch by hvdprof, and the line without tags.

    The rank is None where the line begins with no tag: then the launcher wrote it.
    """
    for pattern in (TAG, _TORCH_TAG, _HYDRA_TAG, SRUN_TAG):
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
