from hvdprof.analyze.files.hang_verdict import RankInGroup, hang_of


def ranks(*states: tuple[int, int | None, int | None]) -> list[RankInGroup]:
    return [RankInGroup(rank, enqueued, completed) for rank, enqueued, completed in states]


def test_a_rank_that_did_not_submit_is_missing() -> None:
    hang = hang_of({"world": ranks((0, 8, 7), (1, 7, 7), (2, 9, 7))})
    assert (hang.missing, hang.stuck, hang.blocked) == ((1,), (), (0, 2))
    assert (hang.first[0].seq, hang.first[0].waiting) == (8, (0, 2))


def test_a_rank_that_waits_itself_is_no_culprit() -> None:
    groups = {
        "left": ranks((0, 5, 4), (1, 4, 4)),
        "right": ranks((1, 9, 8), (2, 8, 8)),
    }
    hang = hang_of(groups)
    assert hang.missing == (2,)
    assert hang.blocked == (0, 1)


def test_a_rank_that_did_not_complete_what_others_did_is_stuck() -> None:
    hang = hang_of({"world": ranks((0, 20, 12), (1, 20, 5))})
    assert (hang.missing, hang.stuck) == ((), (1,))
    assert (hang.first[0].kind, hang.first[0].seq) == ("stuck", 6)


def test_submitted_by_all_and_completed_by_none_names_no_rank() -> None:
    hang = hang_of({"world": ranks((0, 8, 7), (1, 8, 7))})
    assert hang.culprits == ()
    assert hang.pending == (0, 1)


def test_nothing_pending_is_no_hang() -> None:
    hang = hang_of({"world": ranks((0, 8, 8), (1, 8, 8)), "idle": ranks((0, 0, -1), (1, 0, -1))})
    assert (hang.culprits, hang.pending, hang.first) == ((), (), ())


def test_without_completions_the_ranks_with_the_fewest_are_missing() -> None:
    hang = hang_of({"world": ranks((0, 8, None), (1, 6, None), (2, 8, None))})
    assert hang.missing == (1,)
    assert (hang.first[0].seq, hang.completions_known) == (7, False)


def test_ranks_that_wait_for_each_other_are_all_named() -> None:
    groups = {"a": ranks((0, 5, 4), (1, 4, 4)), "b": ranks((0, 4, 4), (1, 5, 4))}
    assert hang_of(groups).missing == (0, 1)


def test_a_rank_alone_in_its_group_compares_with_none() -> None:
    assert hang_of({"own": ranks((0, 8, 3))}).culprits == ()
