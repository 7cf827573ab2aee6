"""The dictionary of ``deepspeed.comm.log_summary(return_dict=True)``, saved as JSON.

Tested in ``tests/ingest/logs/deepspeed/test_deepspeed_comms.py``.
"""

from pathlib import Path

import pandas as pd

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.text.small_json import mapping_of, read_json_mapping
from hvdprof.model.tables.printed_tables import COMMS_LOG
from hvdprof.rundir.regular_file import shown_name

_BITS = 8.0
_LARGEST = 2.0**62


def read_comms_json(path: Path) -> list[tuple[str, pd.DataFrame]]:
    """COMMS_LOG by its name; entries without numbers are left out.

    Raises:
        UnreadableInputError: It is torn, too large, or no summary.
        OSError: It cannot be read.
    """
    name = shown_name(path)
    try:
        content = read_json_mapping(path)
        summary = mapping_of(content.get("summary"))
    except ValueError as error:
        raise UnreadableInputError(f"{name} is a damaged DeepSpeed summary.") from error
    metadata = content.get("metadata")
    rank = metadata.get("rank") if isinstance(metadata, dict) else None
    rows = Rows(COMMS_LOG)
    for operation, sizes in summary.items():
        for size, entry in (sizes if isinstance(sizes, dict) else {}).items():
            numbers = _numbers(size, entry)
            if numbers is None:
                continue
            size_bytes, number, total, mean, algbw, busbw = numbers
            rows.add(
                file=name,
                line=1,
                rank=rank if isinstance(rank, int) and 0 <= rank < 2**31 else None,
                summary=0,
                operation=str(operation),
                caller="",
                size_bytes=int(size_bytes),
                number=int(number),
                total_ns=round(total * 1e6),
                mean_ns=round(mean * 1e6),
                algbw_gb_s=algbw / _BITS,
                busbw_gb_s=busbw / _BITS,
            )
    return [(COMMS_LOG.name, rows.frame())]


def _numbers(size: str, entry: object) -> list[float] | None:
    """Size, number, total and mean in ms, and both bandwidths; None where one is missing."""
    if not isinstance(entry, dict) or not size.isdecimal():
        return None
    keys = ("count", "total_latency_ms", "avg_latency_ms", "tput_avg_gbps", "busbw_avg_gbps")
    values = [entry.get(key) for key in keys]
    known = [float(value) for value in values if isinstance(value, int | float)]
    numbers = [float(size[:19]), *known]
    whole = len(known) == len(keys) and all(0 <= number * 1e6 < _LARGEST for number in numbers)
    return numbers if whole else None
