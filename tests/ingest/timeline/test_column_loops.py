"""Each loop over columns gives the same, compiled and in plain Python."""

import random
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="compiled loops need it")

from hvdprof.ingest.timeline.horovod_timeline import parse_plain
from hvdprof.ingest.timeline.meaning import uses
from hvdprof.ingest.timeline.meaning.ticks import places_of
from hvdprof.ingest.timeline.meaning.uses import roles_and_uses, tensors_of
from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline
from tests.builders.mutants import mutant
from tests.builders.places import RECORDINGS

RECORDED = [path for path in sorted(RECORDINGS.glob("*.json")) if ".truth." not in path.name]


def columns_of(raw: RawTimeline) -> list[list[int]]:
    tensors = tensors_of(raw)
    roles, uses = roles_and_uses(raw, tensors, np.arange(len(tensors.names)))
    places, ready = places_of(raw, tensors, roles, uses)
    found = (roles, uses, places, ready)
    return [getattr(one, name).tolist() for one in found for name in one.__slots__]


def assert_both_ways_agree(raw: RawTimeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uses, "has_numba", lambda: False)
    plain = columns_of(raw)
    monkeypatch.setattr(uses, "has_numba", lambda: True)
    monkeypatch.setattr(uses, "ENOUGH_ROWS", 0)
    monkeypatch.setattr(uses, "MANY_ROWS", 0)
    assert columns_of(raw) == plain


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recordings(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_both_ways_agree(parse_plain(path.read_bytes()), monkeypatch)


@pytest.mark.heavy
def test_mutants_of_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = random.Random(1)
    seeds = [path.read_bytes()[:6000] for path in RECORDED]
    for _ in range(200):
        content = mutant(numbers, numbers.choice(seeds))
        assert_both_ways_agree(parse_plain(content), monkeypatch)


def test_a_loop_is_compiled_where_there_are_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(uses, "compiled", lambda loop: lambda *_: ran.append("code"))
    uses.run_loop(lambda *_: ran.append("plain"), (np.zeros(10),), ())
    uses.run_loop(lambda *_: ran.append("plain"), (np.zeros(uses.MANY_ROWS),), ())
    assert ran == ["plain", "code"]
