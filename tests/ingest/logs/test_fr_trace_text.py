from pathlib import Path

import pandas as pd
import pytest

from hvdprof.ingest.logs.fr_trace_text import FrTraceText
from tests.builders.printed import read_part

RECORD = """\
Not all ranks joining collective, sequence number: {seq}
internal record id: 310
group info: 5:data_parallel
collective: nccl:{name}
missing ranks: {missing}
input sizes: [[4096]]
output sizes: [[4096]]
world size: 4
expected ranks: {{0, 1, 2, 3}}
collective state: scheduled
collective stack trace:
 train_step at train.py:40

"""
TABLE = """\
=== FR Trace ===
--- Groups ---
id                   desc             size
5-80988666093716662  data_parallel       4
--- Collectives ---
  id    group_id  pass_check      collective_seq_id    p2p_seq_id    record_id  pg_desc          \
collective_name    input_sizes    output_sizes    expected_ranks    collective_state    \
collective_frames                  input_numel    output_numel    missing_ranks    \
mismatch_collectives    type_of_mismatch
   0           5  True                           71             0          310  5:data_parallel  \
nccl:all_reduce    [[4096]]       [[4096]]        {0, 1, 2, 3}      scheduled           \
[{'name': 'step', 'line': '4'}]                                    {2}
   1           5  True                           70             0          309  5:data_parallel  \
nccl:all_reduce    [[4096]]       [[4096]]        {0, 1, 2, 3}      completed           \
[{'name': 'step', 'line': '4'}]
"""


def progress_of(text: str, folder: Path) -> pd.DataFrame:
    return read_part(FrTraceText, text, folder)[0]["collective_progress"]


def test_missing_ranks_came_as_far_as_the_collective_before(tmp_path: Path) -> None:
    text = RECORD.format(seq=71, name="all_reduce", missing="{2}")
    text += RECORD.format(seq=72, name="all_gather", missing="{2, 3}")
    rows = progress_of(text, tmp_path)
    assert list(rows["last_enqueued"]) == [72, 72, 70, 71]
    assert list(rows["pending_name"]) == [
        "nccl:all_reduce",
        "nccl:all_reduce",
        "",
        "nccl:all_reduce",
    ]
    assert set(rows["group_ranks"]) == {"0, 1, 2, 3"}


def test_rows_of_the_debug_server_say_the_same(tmp_path: Path) -> None:
    rows = progress_of(TABLE, tmp_path)
    assert dict(zip(rows["rank"], rows["last_enqueued"], strict=True)) == {
        0: 71,
        1: 71,
        2: 70,
        3: 71,
    }


def test_a_mismatch_names_the_rank_that_fr_trace_names(tmp_path: Path) -> None:
    text = (
        "Collective sequence number: 7 has errors\ngroup info: 0:default_pg\ncollective: "
        "nccl:all_reduce\nexpected ranks: {0, 1}\ncollective state: scheduled\nerror msg: Culprit "
        "rank 1; Error type: COLLECTIVE_TYPE_MISMATCH, Expected collective type: 'all_reduce'\n"
    )
    rows = progress_of(text, tmp_path)
    assert list(rows["status"]) == ["", "COLLECTIVE_TYPE_MISMATCH"]


def test_sends_and_receives_have_no_missing_ranks(tmp_path: Path) -> None:
    text = RECORD.format(seq=26, name="recv 3<-0", missing="{1, 2}")
    assert progress_of(text, tmp_path).empty


@pytest.mark.parametrize("end", range(0, 400, 23))
def test_a_record_that_is_cut_gives_no_wrong_rank(end: int, tmp_path: Path) -> None:
    rows = progress_of(RECORD.format(seq=71, name="all_reduce", missing="{2}")[:end], tmp_path)
    assert set(rows["last_enqueued"]) <= {70, 71}
    assert set(rows.loc[rows["last_enqueued"].eq(70), "rank"]) <= {2}
