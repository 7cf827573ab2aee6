from hvdprof.rundir.stack_frames import script_frame


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
