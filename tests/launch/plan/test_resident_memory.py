import pytest

from hvdprof.launch.plan.resident_memory import fit_together, have_room

GIB = 2**30


@pytest.mark.parametrize(
    ("num_ranks", "num_parameters", "available_bytes", "fit"),
    [
        (4, 11_700_000, 8 * GIB, True),
        (4, 11_700_000, 4 * GIB, False),
        (4, 138_000_000, 24 * GIB, False),
        (128, 25_600_000, 256 * GIB, True),
        (1, 0, None, False),
    ],
)
def test_ranks_fit_with_room_to_spare(
    num_ranks: int, num_parameters: int, available_bytes: int | None, fit: bool
) -> None:
    assert fit_together(num_ranks, num_parameters, available_bytes) == fit


@pytest.mark.parametrize(
    ("available_bytes", "room"), [(8 * GIB, True), (6 * GIB, False), (None, False)]
)
def test_ranks_that_run_show_whether_more_fit_beside_them(
    available_bytes: int | None, room: bool
) -> None:
    # Two ranks take 2 GiB, may grow by half, and three more are to come: 4.5 of 70 %.
    assert have_room(2 * GIB, 2, 3, available_bytes) == room
