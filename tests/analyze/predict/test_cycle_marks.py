from hvdprof.analyze.predict.cycle_marks import cycle_marks
from hvdprof.model.tables.run_tables import EVENTS
from tests.builders.declared_rows import declared_rows


def test_marks_are_found_by_launch():
    rows = [
        {"pass_id": "a", "segment": "s", "activity": "CYCLE_START", "start_ns": 7},
        {"pass_id": "b", "segment": "s", "activity": "ALLREDUCE", "start_ns": 9},
        {"pass_id": "a", "segment": "s", "activity": "CYCLE_START", "start_ns": 5},
    ]

    marks = cycle_marks(declared_rows(EVENTS, *rows))

    assert {key: starts.tolist() for key, starts in marks.items()} == {("a", "s"): [5.0, 7.0]}
