"""Lines of level TRACE: the only ones on which NCCL itself stamps a time."""

import re

from hvdprof.ingest.nccl.line_kinds import without_numbers
from hvdprof.ingest.nccl.logbook import Logbook, Message

_STAMP = re.compile(r"(\d{1,12}\.\d{1,9}) \S+:\d{1,7} [NR]CCL TRACE ")
_LONGEST_TEXT = 200


def read_trace(log: Logbook, said: Message) -> bool:
    """`117.724290 nccl_net_ofi_init:1396 NCCL TRACE NET/OFI Provider cxi does not ...`.

    The stamp is in milliseconds (``ncclDebugLog`` in src/debug.cc of NCCL multiplies seconds by
    1000). Numbers in the text are replaced, so that a long log holds each sentence once.
    """
    stamp = _STAMP.search(said.raw)
    log.add(
        "nccl_traces",
        said,
        None if stamp is None else round(float(stamp[1]) * 1e6),
        said.where,
        without_numbers(said.text)[:_LONGEST_TEXT],
    )
    return bool(said.text)
