from hvdprof.rundir.layout import RunPaths


def test_sessions_lie_beside_their_launch_by_number(tmp_path):
    launch = RunPaths(tmp_path).of_pass("01-elastic")
    others = ("01-elastic", "01-elastic-session1-attempt2", "02-elastic-session4")
    for name in (*others, "01-elastic-session10", "01-elastic-session9"):
        RunPaths(tmp_path).of_pass(name).folder.mkdir(parents=True)

    assert list(launch.sessions()) == [9, 10]
    assert launch.sessions()[10].folder.name == "01-elastic-session10"
    assert launch.session(1).recorder_file(0).parts[-3:] == (
        "01-elastic-session1",
        "recorder",
        "rank-0.jsonl",
    )
