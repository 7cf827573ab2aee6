"""What launchers and terminals put around the words of a process: tags with ranks, and colours.

Launchers put a tag before each line and sometimes into the middle of one: Open MPI writes
``[1,0]<stdout>:`` (version 5 with a blank behind it) and a date before it where asked to, Horovod's
own launcher ``[0]<stdout>:``, SageMaker ``[1,mpirank:0,algo-1]<stdout>:``, ``srun -l`` ``0: ``.
Hydra's ``[0] `` takes more than a line to tell: ``wrappers_hydra``.
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
SRUN_TAG = re.compile(r"^ {0,3}(?P<rank>\d{1,5}): (?!\[(?!\d{4}-\d\d-|[TDIWEF] ))")
"""The number that ``srun -l`` puts before a line."""

_HYDRA_TAG = re.compile(r"\[(?P<rank>\d{1,5})\] ")

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def without_colours(text: str) -> str:
    """A text without the sequences that set the colours of a terminal."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def tagged_rank(wrapper: str) -> int | None:
    """The rank that the last launcher's tag in a text states; ``None`` where there is no tag.

    Hydra's counts where nothing else stands in the text: NCCL itself writes no ``[0] `` there.
    """
    ranks = [tag["rank"] for tag in TAG.finditer(wrapper)]
    if ranks:
        return int(ranks[-1])
    alone = SRUN_TAG.match(wrapper) or _HYDRA_TAG.fullmatch(wrapper)
    return int(alone["rank"]) if alone else None
