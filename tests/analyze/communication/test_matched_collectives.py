"""Waiting and transfer of collectives that several ranks recorded, on corrected clocks."""

import pandas as pd
import pytest

from hvdprof.analyze.communication.matched_collectives import matched_collectives
from hvdprof.model.tables.rank_collective_tables import MATCHED_COLLECTIVES, RANK_COLLECTIVES
from hvdprof.model.tables.waiting_tables import CLOCKS
from tests.builders.declared_rows import declared_rows

LAUNCH = {"pass_id": "p", "segment": "s"}


def _calls(*rows: dict[str, object]) -> pd.DataFrame:
    usual = {
        **LAUNCH,
        "match_id": 0,
        "collective": "ALLREDUCE",
        "group": "default_pg",
        "group_size": 2,
        "size_bytes": 1000,
    }
    return declared_rows(RANK_COLLECTIVES, *(usual | row for row in rows))


def _clocks(shift_ns: float, u_ns: float) -> pd.DataFrame:
    return declared_rows(
        CLOCKS,
        *(
            {**LAUNCH, "rank": rank, "offset_low_ns": shift, "offset_high_ns": shift, "u_ns": u}
            for rank, shift, u in ((0, 0.0, 0.0), (1, shift_ns, u_ns))
        ),
    )


EARLY = {"rank": 0, "arrival_ns": 100, "end_ns": 600}
LATE = {"rank": 1, "arrival_ns": 400, "end_ns": 600}


def test_the_early_rank_waits_and_transfer_is_the_call_of_the_last() -> None:
    (row,) = matched_collectives(_calls(EARLY, LATE), CLOCKS.empty()).to_dict("records")
    assert (row["last_rank"], row["wait_sum_ns"], row["transfer_ns"]) == (1, 300, 200)
    assert (row["first_ns"], row["second_last_ns"], row["last_ns"]) == (100, 100, 400)
    assert row["busbw_gb_per_s"] == pytest.approx(1000 / 200 * 2 * 1 / 2)
    assert row["decided"]


def test_corrected_clocks_move_arrivals_but_not_the_transfer() -> None:
    (row,) = matched_collectives(_calls(EARLY, LATE), _clocks(-350.0, 10.0)).to_dict("records")
    assert (row["last_rank"], row["wait_sum_ns"], row["transfer_ns"]) == (0, 50, 200)
    assert row["decided"]


def test_a_gap_within_the_clock_error_names_no_rank_as_decided() -> None:
    (row,) = matched_collectives(_calls(EARLY, LATE), _clocks(0.0, 300.0)).to_dict("records")
    assert not row["decided"]


@pytest.mark.parametrize(
    "late", [LATE | {"end_ns": None}, LATE | {"group_size": 4}], ids=["no end", "ranks missing"]
)
def test_without_an_end_or_a_rank_there_is_no_transfer(late: dict[str, object]) -> None:
    early = EARLY | {"group_size": late.get("group_size", 2)}
    (row,) = matched_collectives(_calls(early, late), CLOCKS.empty()).to_dict("records")
    assert pd.isna(row["transfer_ns"])
    assert pd.isna(row["busbw_gb_per_s"])
    assert row["wait_sum_ns"] == 300


def test_calls_without_a_partner_make_no_row() -> None:
    found = matched_collectives(_calls(EARLY | {"match_id": -1}), CLOCKS.empty())
    pd.testing.assert_frame_equal(found, MATCHED_COLLECTIVES.empty())
