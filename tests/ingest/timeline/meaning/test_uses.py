from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.timeline.horovod_timeline import parse_plain
from hvdprof.ingest.timeline.meaning.uses import (
    ACTIVITY,
    ENDED_ALONE,
    NEGOTIATION,
    NONE,
    OPERATION,
    PHANTOM,
    roles_and_uses,
    tensors_of,
)
from hvdprof.ingest.timeline.syntax.parsed_timeline import OPEN, ORPHAN, RawTimeline
from tests.builders.timeline_writer import TimelineWriter


def raw_of(writer: TimelineWriter) -> RawTimeline:
    return parse_plain(writer.text().encode())


def roles_of(raw: RawTimeline) -> list[tuple[int, int, int]]:
    """Role, occurrence and row of the operation of each slice."""
    roles, _ = roles_and_uses(raw, tensors_of(raw))
    columns = (roles.role.tolist(), roles.occurrence.tolist(), roles.operation.tolist())
    return list(zip(*columns, strict=True))


def test_a_use_is_a_negotiation_with_the_operation_after_it() -> None:
    writer = TimelineWriter()
    for _ in range(2):
        writer.negotiate(["allreduce.a", "allreduce.b"])
        writer.execute(["allreduce.a", "allreduce.b"])
    raw = raw_of(writer)
    _, uses = roles_and_uses(raw, tensors_of(raw))
    assert uses.tensor.tolist() == [0, 0, 1, 1]
    assert uses.occurrence.tolist() == [0, 1, 0, 1]
    assert uses.negotiation.tolist() == [0, 6, 1, 7]
    assert uses.operation.tolist() == [2, 8, 3, 9]


def test_an_operation_without_negotiation_is_a_use() -> None:
    writer = TimelineWriter()
    writer.execute(["allreduce.a"])
    assert roles_of(raw_of(writer)) == [(OPERATION, 0, 0), (ACTIVITY, 0, 0)]


def test_activities_left_over_from_before_the_recording_are_part_of_no_operation() -> None:
    writer = TimelineWriter()
    writer.begin("allreduce.a", "MEMCPY_OUT_FUSION_BUFFER")
    writer.end("allreduce.a")
    writer.end("allreduce.a", dtype="float32", shape="[8]")
    writer.negotiate(["allreduce.a"])
    writer.execute(["allreduce.a"])
    assert roles_of(raw_of(writer)) == [
        (ACTIVITY, 0, NONE),
        (ENDED_ALONE, 0, NONE),
        (NEGOTIATION, 0, NONE),
        (OPERATION, 0, 3),
        (ACTIVITY, 0, 3),
    ]


def test_a_lost_end_of_a_negotiation_does_not_hide_its_operation() -> None:
    writer = TimelineWriter()
    writer.begin("allreduce.a", "NEGOTIATE_ALLREDUCE")
    writer.execute(["allreduce.a"])
    writer.negotiate(["allreduce.a"])
    writer.execute(["allreduce.a"])
    assert [role for role, _, _ in roles_of(raw_of(writer))] == [
        *(NEGOTIATION, OPERATION, ACTIVITY),
        *(NEGOTIATION, OPERATION, ACTIVITY),
    ]


def test_a_collective_of_a_later_horovod_is_known_by_its_negotiation() -> None:
    writer = TimelineWriter()
    writer.negotiate(["a"], op="SCAN")
    writer.execute(["a"], op="SCAN")
    assert [role for role, _, _ in roles_of(raw_of(writer))] == [NEGOTIATION, OPERATION, ACTIVITY]


def test_a_negotiation_at_the_end_of_the_recording_is_unfinished_and_no_phantom() -> None:
    writer = TimelineWriter()
    writer.negotiate(["allreduce.a", "allreduce.b"])
    writer.execute(["allreduce.a"])
    assert [role for role, _, _ in roles_of(raw_of(writer))].count(PHANTOM) == 0


def test_negotiations_that_a_joined_rank_answered_for_are_phantoms() -> None:
    writer = TimelineWriter()
    writer.begin("allreduce.cached", "NEGOTIATE_ALLREDUCE")
    writer.negotiate(["allreduce.a"])
    writer.execute(["allreduce.a"])
    writer.end("allreduce.cached")
    writer.end("join.noname", dtype="int32", shape="[]")
    raw = raw_of(writer)
    roles, uses = roles_and_uses(raw, tensors_of(raw))
    assert roles.role.tolist()[0] == PHANTOM
    assert roles.use.tolist()[0] == NONE
    assert len(uses) == 1


def test_a_barrier_is_a_use_without_operation() -> None:
    writer = TimelineWriter()
    writer.negotiate(["barrier.noname"], op="BARRIER")
    writer.end("barrier.noname")
    writer.negotiate(["barrier.noname"], op="BARRIER")
    raw = raw_of(writer)
    roles, uses = roles_and_uses(raw, tensors_of(raw))
    assert roles.role.tolist() == [NEGOTIATION, ENDED_ALONE, NEGOTIATION]
    assert uses.operation.tolist() == [NONE, NONE]


def naive_roles(raw: RawTimeline) -> list[tuple[int, int, int]]:
    """The same by a state for each tensor, slice after slice; phantoms are not distinguished."""
    known = {"ALLREDUCE", "BROADCAST", "ALLGATHER"}
    found: list[tuple[int, int, int]] = []
    uses: dict[int, int] = {}
    negotiated: dict[int, int] = {}
    operation: dict[int, int] = {}
    slices = raw.slices
    for row in range(len(slices)):
        pid, code = int(slices.pid[row]), int(slices.name[row])
        name = raw.names[code] if code != ORPHAN else ""
        begin = int(slices.begin_order[row])
        last = negotiated.get(pid, NONE)
        inside = last != NONE and (
            slices.end_order[last] == OPEN or int(slices.end_order[last]) > begin
        )
        if code == ORPHAN:
            role, outer = ENDED_ALONE, NONE
        elif name.startswith("NEGOTIATE_"):
            role, outer = NEGOTIATION, NONE
            negotiated[pid] = row
            operation.pop(pid, None)
            uses[pid] = uses.get(pid, 0) + 1
        elif name in known and int(slices.depth[row]) <= int(inside):
            role, outer = OPERATION, row
            follows = last != NONE and pid not in operation
            uses[pid] = uses.get(pid, 0) + (not follows)
            operation[pid] = row
        else:
            role = ACTIVITY
            outer = operation.get(pid, NONE)
            if outer != NONE and OPEN != slices.end_order[outer] < begin:
                outer = NONE
        found.append((role, max(uses.get(pid, 0) - 1, 0), outer))
    return found


_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "begin", "end"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(
            ["NEGOTIATE_ALLREDUCE", "ALLREDUCE", "BROADCAST", "ALLGATHER", "MPI_BCAST", "QUEUE"]
        ),
    ),
    max_size=40,
)


@given(_EVENTS)
def test_any_order_of_records_means_what_a_state_for_each_tensor_says(
    events: list[tuple[str, str, str]],
) -> None:
    writer = TimelineWriter()
    for kind, tensor, name in events:
        if kind == "begin":
            writer.begin(tensor, name)
        else:
            writer.end(tensor)
    raw = raw_of(writer)
    roles, uses = roles_and_uses(raw, tensors_of(raw))
    classified = list(
        zip(roles.role.tolist(), roles.operation.tolist(), roles.occurrence.tolist(), strict=True)
    )
    expected = naive_roles(raw)
    for (role, operation, _), (naive, _, naive_operation) in zip(classified, expected, strict=True):
        assert (NEGOTIATION if role == PHANTOM else role) == naive
        assert operation == naive_operation
    if PHANTOM not in roles.role:
        assert [one[2] for one in classified] == [one[1] for one in expected]
    rows = [row for row in (*uses.negotiation.tolist(), *uses.operation.tolist()) if row != NONE]
    in_use = [
        row for row, (role, _, _) in enumerate(classified) if role in (NEGOTIATION, OPERATION)
    ]
    assert sorted(rows) == in_use
