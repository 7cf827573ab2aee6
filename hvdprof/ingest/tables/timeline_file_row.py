"""What a timeline file says of itself as a row of TIMELINES."""

import pandas as pd

from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.ingest.timeline.horovod_timeline import Summary
from hvdprof.model.tables.timeline_tables import TIMELINES


def timeline_file_row(pass_id: str, segment: str, summary: Summary) -> pd.DataFrame:
    """The row of one file."""
    facts = summary.facts
    rows = Rows(TIMELINES)
    rows.add(
        pass_id=pass_id,
        segment=segment,
        writer=facts.writer,
        time_zero=facts.time_zero,
        epoch_ns=None if summary.epoch_us is None else summary.epoch_us * 1000,
        text_bytes=summary.size_bytes,
        num_events=facts.num_events,
        span_ns=facts.span_us * 1000,
        backends=", ".join(facts.backends),
        frameworks=", ".join(facts.frameworks),
        np=facts.size,
        np_reason=facts.size_reason,
        num_tensors=facts.num_tensors,
        num_executions=facts.num_executions,
        num_fused_executions=facts.num_fused_executions,
        num_phantoms=facts.num_phantoms,
        num_errors=facts.num_errors,
        num_recordings=facts.num_recordings,
        num_time_jumps=facts.num_time_jumps,
        rank_ticks=facts.rank_evidence.kind,
        rank_ticks_sentence=facts.rank_evidence.sentence,
        autotuned=facts.autotuned,
        torus=facts.torus,
    )
    return rows.frame()
