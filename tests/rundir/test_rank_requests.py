"""What a rank is asked for: written and read back; damaged and hostile files ask for nothing."""

import json
import os

import pytest

from hvdprof.rundir.rank_requests import (
    MOST_BYTES,
    MOST_WAITING,
    Request,
    read_requests,
    write_requests,
)


def test_the_latest_requests_are_read_back(tmp_path):
    path = tmp_path / "request-1.json"
    asked = [Request(number, samples=True, first_step=number * 10) for number in range(6)]
    write_requests(path, asked)
    assert read_requests(path) == asked[-MOST_WAITING:]
    assert path.stat().st_mode & 0o077 == 0


_GOOD = {"event": 1, "samples": True, "first_step": 5}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "\x00\xff",
        '{"requests": 7}',
        json.dumps({"requests": [_GOOD]})[:-5],
        json.dumps({"requests": [_GOOD, {"event": "1", "samples": True}]}),
        json.dumps({"requests": [_GOOD | {"event": True}]}),
        json.dumps({"requests": [_GOOD | {"event": -1}]}),
        json.dumps({"requests": [_GOOD | {"event": 1 << 64}]}),
        json.dumps({"requests": [_GOOD] * (MOST_WAITING + 1)}),
        json.dumps({"requests": [_GOOD]}) + " " * MOST_BYTES,
        "[" * 3000,
    ],
)
def test_a_damaged_or_hostile_file_asks_for_nothing(tmp_path, text):
    path = tmp_path / "request-1.json"
    path.write_text(text, encoding="latin-1")
    assert read_requests(path) == []


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path):
    path = tmp_path / "request-1.json"
    os.mkfifo(path)
    with pytest.raises(OSError, match="named pipe"):
        read_requests(path)
