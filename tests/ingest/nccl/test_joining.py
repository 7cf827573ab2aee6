from hvdprof.ingest.nccl.joining import Communicator, join_members
from hvdprof.ingest.nccl.logbook import Member


def members(*ranks: tuple[int, int | None, int, str]) -> list[Member]:
    """Ranks as (process, rank, number of ranks, commId), completed in this order."""
    return [
        Member(
            process,
            f"0x{number}",
            rank,
            size,
            "log",
            number,
            comm_id=comm_id,
            complete=True,
            complete_order=number,
        )
        for number, (process, rank, size, comm_id) in enumerate(ranks)
    ]


def joined(*ranks: tuple[int, int | None, int, str]) -> list[tuple[tuple[int, ...], str, int]]:
    found: list[Communicator] = join_members(members(*ranks))
    return [(one.members, one.join, one.num_joined) for one in found]


def test_the_comm_id_distinguishes_communicators() -> None:
    assert joined((0, 0, 2, "a"), (1, 0, 2, "b"), (0, 1, 2, "b"), (1, 1, 2, "a")) == [
        ((0, 3), "commId", 1),
        ((1, 2), "commId", 1),
    ]


def test_the_only_set_of_its_size_is_one_communicator() -> None:
    assert joined((0, 0, 2, ""), (0, 0, 1, ""), (1, 1, 2, "")) == [
        ((0, 2), "complete", 1),
        ((1,), "single", 1),
    ]
    assert joined((0, 0, 3, ""), (1, 2, 3, "")) == [((0, 1), "partial", 1)]


def test_complete_sets_of_the_same_processes_come_one_after_the_other() -> None:
    assert joined((0, 0, 2, ""), (1, 1, 2, ""), (1, 1, 2, ""), (0, 0, 2, "")) == [
        ((0, 1), "order", 1),
        ((2, 3), "order", 1),
    ]


def test_sets_that_cannot_be_distinguished_are_ambiguous() -> None:
    by_turns = joined((0, 0, 2, ""), (2, 0, 2, ""), (1, 1, 2, ""), (3, 1, 2, ""))
    assert by_turns == [((0, 1, 2, 3), "ambiguous", 2)]
    other_processes = joined((0, 0, 2, ""), (1, 1, 2, ""), (2, 0, 2, ""), (3, 1, 2, ""))
    assert other_processes == [((0, 1, 2, 3), "ambiguous", 2)]


def test_the_same_rank_twice_is_two_communicators() -> None:
    assert joined((0, 0, 2, ""), (0, 0, 2, "")) == [((0,), "partial", 1), ((1,), "partial", 1)]
    assert joined((0, None, 2, ""), (0, None, 2, "")) == [
        ((0,), "pointer", 1),
        ((1,), "pointer", 1),
    ]
