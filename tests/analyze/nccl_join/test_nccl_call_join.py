import itertools

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hvdprof.analyze.nccl_join.nccl_call_join import CallJoin, Pairing
from hvdprof.model.tables.nccl_call_tables import NCCL_CALLS
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.model.tables.timeline_tables import TENSOR_USES

Call = tuple[str, int]
Execution = tuple[str, list[int]]


def calls_of(calls: list[Call], rank: int | None = 0) -> pd.DataFrame:
    return NCCL_CALLS.frame(
        [
            {
                "communicator": 0, "rank": rank, "operation": operation, "op_count": 0,
                "count": size // 4, "dtype": "float32", "size_bytes": size, "reduction": "sum",
                "root": 0, "subsystem": "COLL", "host": "oak", "pid": 1, "file": "log",
                "line": number + 1,
            }
            for number, (operation, size) in enumerate(calls)
        ]
    )  # fmt: skip


def events_of(executions: list[Execution]) -> pd.DataFrame:
    rows = [
        {
            "pass_id": "p", "segment": "s", "source": "timeline", "rank": 0, "step": 0,
            "phase": phase, "activity": collective, "collective": collective,
            "tensor": f"t{number}.{part}", "occurrence": 0, "fusion_id": 100 + number,
            "start_ns": 1000 * number, "dur_ns": 10, "size_bytes": size, "clock_error_ns": 0,
        }
        for number, (collective, sizes) in enumerate(executions)
        for part, size in enumerate(sizes)
        for phase in ("operation",)
    ]  # fmt: skip
    return EVENTS.frame(rows)


def joined(
    calls: list[Call], executions: list[Execution]
) -> tuple[list[tuple[int, int]], CallJoin]:
    result = Pairing(calls_of(calls), events_of(executions)).join()
    pairs = result.pairs
    return list(zip(pairs["call"], pairs["fusion_id"] - 100, strict=True)), result


def allreduces(*sizes: int) -> list[Call]:
    return [("AllReduce", size) for size in sizes]


def executions(*sizes: int) -> list[Execution]:
    return [("ALLREDUCE", [size]) for size in sizes]


def test_equal_sequences_are_joined_in_order() -> None:
    pairs, result = joined(allreduces(8, 400, 8), executions(8, 400, 8))
    assert pairs == [(0, 0), (1, 1), (2, 2)]
    assert (result.num_unjoined_calls, result.num_unjoined_executions) == (0, 0)
    assert result.num_ambiguous == 0
    assert result.pairs["line"].tolist() == [1, 2, 3]


def test_calls_before_the_timeline_began_stay_alone() -> None:
    pairs, result = joined(allreduces(4, 8, 400, 16), executions(400, 16))
    assert pairs == [(2, 0), (3, 1)]
    assert result.num_unjoined_calls == 2


def test_what_could_be_one_or_the_other_stays_alone() -> None:
    pairs, result = joined(allreduces(8, 8, 400), executions(8, 400))
    assert pairs == [(2, 1)]
    assert (result.num_ambiguous, result.num_unjoined_calls) == (1, 2)
    assert result.num_unjoined_executions == 1


def test_fused_tensors_are_summed_and_may_be_padded() -> None:
    pairs, _ = joined(allreduces(100 + 50 + 100), [("ALLREDUCE", [100, 50])])
    assert pairs == [(0, 0)]
    assert joined(allreduces(100 + 50 + 129), [("ALLREDUCE", [100, 50])])[0] == []
    assert joined(allreduces(101), executions(100))[0] == []


def test_other_operations_are_not_joined() -> None:
    assert joined([("Broadcast", 8)], executions(8))[0] == []
    assert joined([("Broadcast", 8)], [("BROADCAST", [8])])[0] == [(0, 0)]


def uses_of(types: list[str]) -> pd.DataFrame:
    rows = [
        {
            "pass_id": "p", "segment": "s", "step": 0, "tensor": f"t{number}", "occurrence": 0,
            "collective": "ALLREDUCE", "fusion_id": 100 + number, "negotiation_start_ns": None,
            "negotiation_ns": None, "start_ns": None, "dur_ns": None, "size_bytes": None,
            "dtype": dtype, "num_ticks": 0, "first_rank": None, "last_rank": None,
            "last_after_ns": None, "warmup": False, "clock_error_ns": 0,
        }
        for number, dtype in enumerate(types)
    ]  # fmt: skip
    return TENSOR_USES.frame(rows)


def typed(
    calls: list[Call], types: list[str], given: list[Execution], tensors: list[str]
) -> set[tuple[int, int]]:
    frame = calls_of(calls).assign(dtype=pd.Categorical(types))
    result = Pairing(frame, events_of(given), uses_of(tensors)).join()
    return set(zip(result.pairs["call"], result.pairs["fusion_id"] - 100, strict=True))


@pytest.mark.heavy
def test_reductions_of_other_types_are_not_joined() -> None:
    calls, types = allreduces(8, 8), ["float16", "float32"]
    assert typed(calls, types, executions(8), ["float32"]) == {(1, 0)}
    assert typed(calls, types, executions(8, 8), ["float16", "float32"]) == {(0, 0), (1, 1)}
    assert typed(calls, types, executions(8), ["int32"]) == set()


def test_an_unknown_type_fits_any() -> None:
    assert typed(allreduces(8), ["float16"], executions(8), [""]) == {(0, 0)}


def test_tensors_that_horovod_reduces_as_bytes_are_joined_for_any_type() -> None:
    assert typed([("Broadcast", 8)], ["int8"], [("BROADCAST", [8])], ["float32"]) == {(0, 0)}


def test_rank_0_of_a_host_is_not_rank_0_of_the_job() -> None:
    first, other = calls_of(allreduces(8)), calls_of(allreduces(8, 16))
    other = other.assign(pid=2, rank=pd.array([0, 1], dtype="Int64"))
    calls = pd.concat([other, first], ignore_index=True)
    result = Pairing(calls, events_of(executions(8))).join()
    assert result.pairs["call"].tolist() == [2]
    assert result.num_calls == 1


@pytest.mark.slow
def test_more_than_ten_thousand_are_aligned() -> None:
    step = [4, 8, 400, 16, 8]
    sizes = [size + 4000 * (number // 500) for number in range(3000) for size in step]
    _, result = joined(allreduces(12, *sizes[2:]), executions(*sizes))
    # The first step lost its beginning; what is the same in the steps after it could have gone.
    assert result.num_aligned == 14_998
    assert len(result.pairs) > 12_400
    assert (result.pairs["call"].to_numpy() + 1 == result.pairs["fusion_id"] - 100).all()


def test_a_flood_is_cut_on_both_sides_by_the_same_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hvdprof.analyze.nccl_join.nccl_call_join.MOST_CELLS", 25)
    pairs, result = joined(allreduces(*range(4, 44, 4)), executions(*range(4, 44, 4)))
    assert pairs == [(number, number) for number in range(5)]
    assert (result.num_unjoined_calls, result.num_unjoined_executions) == (5, 5)


def test_rank_0_is_taken_where_ranks_are_known() -> None:
    calls = pd.concat([calls_of(allreduces(8), rank=1), calls_of(allreduces(8))], ignore_index=True)
    result = Pairing(calls, events_of(executions(8))).join()
    assert result.pairs["call"].tolist() == [1]
    unknown = Pairing(calls_of(allreduces(8), rank=None), events_of(executions(8))).join()
    assert len(unknown.pairs) == 1


@pytest.mark.parametrize(("left", "right"), [((), ()), ((8,), ()), ((), (8,)), ((8,), (16,))])
def test_nothing_in_common_joins_nothing(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    pairs, result = joined(allreduces(*left), executions(*right))
    assert pairs == []
    assert result.num_unjoined_calls == len(left)
    assert result.num_unjoined_executions == len(right)


def longest_alignments(left: list[int], right: list[int]) -> list[set[tuple[int, int]]]:
    """All longest alignments of two short sequences, by trying every one."""
    for length in range(min(len(left), len(right)), 0, -1):
        found = [
            set(zip(some, others, strict=True))
            for some in itertools.combinations(range(len(left)), length)
            for others in itertools.combinations(range(len(right)), length)
            if all(left[i] == right[j] for i, j in zip(some, others, strict=True))
        ]
        if found:
            return found
    return [set()]


SIZES = st.lists(st.sampled_from([4, 8, 16]), max_size=6)


@pytest.mark.slow
@settings(deadline=None)
@given(SIZES, SIZES)
def test_pairs_are_those_of_every_longest_alignment(left: list[int], right: list[int]) -> None:
    pairs, result = joined(allreduces(*left), executions(*right))
    alignments = longest_alignments(left, right)
    assert set(pairs) == set.intersection(*alignments)
    assert result.num_ambiguous == len(alignments[0]) - len(pairs)
