"""The contents of NCCL logs as declared tables."""

from dataclasses import dataclass

import pandas as pd

from hvdprof.model.notes import Note

_OTHER_LEVELS = ("WARN", "ERROR", "TRACE", "CALL", "ABORT")


@dataclass(frozen=True, slots=True)
class NcclRecording:
    """Tables of ``model.nccl_tables`` and ``model.nccl_call_tables``; ``notes`` hold warnings.

    ``line_kinds`` counts every line with an NCCL prefix, with a sample of those not understood.
    ``quotes`` holds the text of the lines that a finding can show as evidence.
    """

    versions: pd.DataFrame
    communicators: pd.DataFrame
    ranks: pd.DataFrame
    init_timings: pd.DataFrame
    channels: pd.DataFrame
    rings: pd.DataFrame
    trees: pd.DataFrame
    connections: pd.DataFrame
    networks: pd.DataFrame
    nics: pd.DataFrame
    gpudirect: pd.DataFrame
    settings: pd.DataFrame
    links: pd.DataFrame
    tuning: pd.DataFrame
    choices: pd.DataFrame
    calls: pd.DataFrame
    traces: pd.DataFrame
    problems: pd.DataFrame
    line_kinds: pd.DataFrame
    quotes: pd.DataFrame
    notes: tuple[Note, ...]
    of_hvdprof: bool
    """Whether hvdprof started the job, which logs INIT, ENV, GRAPH and NET then."""

    @property
    def has_info(self) -> bool:
        """Whether it has lines of NCCL_DEBUG=INFO, and not those of another level alone."""
        return not self.line_kinds["kind"].isin(_OTHER_LEVELS).all()
