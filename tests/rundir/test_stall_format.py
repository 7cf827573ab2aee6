import pytest

from hvdprof.rundir.recording.stall_format import (
    frame_parts,
    frames_from_checkpoint,
    script_frame,
    writes_checkpoint,
)


def test_the_line_of_the_script_is_the_innermost_that_is_in_no_library():
    stack = [
        "/venv/lib/python3.11/site-packages/torch/serialization.py:850 save",
        "/repo/hvdprof/collect/auto/autorecord.py:280 waiting",
        "<frozen runpy>:88 _run_code",
        "/home/me/train.py:31 main",
        "/home/me/train.py:90 <module>",
    ]
    assert script_frame(stack) == "/home/me/train.py:31 main"
    assert script_frame(stack[:3]) == ""


def test_a_line_has_a_file_a_number_and_a_function():
    assert frame_parts("/my job/train.py:31 <lambda>") == ("train.py", "31", "<lambda>")
    assert frame_parts("/home/me/train.py:90 <module>") == ("train.py", "90", "")
    assert frame_parts("") == ("", "", "")


@pytest.mark.parametrize(
    ("frame", "is_one"),
    [
        ("/v/site-packages/torch/serialization.py:850 save", True),
        ("/v/site-packages/torch/distributed/checkpoint/filesystem.py:9 _write", True),
        ("/job/train.py:31 save_checkpoint", True),
        ("/job/train.py:31 saveCheckpoint", True),
        ("/job/train.py:31 save", True),
        ("/job/checkpoint_free.py:31 load", False),
        ("/job/train.py:31 saved_batches", False),
        ("/job/train.py:31 load_batch", False),
    ],
)
def test_a_stack_in_a_checkpoint_is_known(frame, is_one):
    assert writes_checkpoint(["/job/io.py:3 write", frame]) is is_one


def test_a_checkpoint_comes_before_what_it_calls():
    stack = ["/job/io.py:3 write", "/v/torch/serialization.py:9 save", "/job/train.py:31 main"]
    assert frames_from_checkpoint(stack) == stack[1:]
    assert frames_from_checkpoint(stack[:1]) == stack[:1]
