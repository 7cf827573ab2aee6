from hvdprof.rundir.layout import PassPaths, RunPaths


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


def test_sampled_lines_are_listed_by_rank_those_of_workers_last(tmp_path):
    folder = PassPaths(tmp_path).recorder_folder
    folder.mkdir()
    names = ["lines-1-worker-10.jsonl", "lines-1-worker-2.jsonl", "lines-1.jsonl"]
    names += ["lines-12-worker-0.jsonl", "lines-x.jsonl", "lines-1.jsonl.gz", "samples-1.jsonl"]
    for name in names:
        (folder / name).touch()
    (folder / "lines-2.jsonl").mkdir()
    found = PassPaths(tmp_path).lines_files()
    assert {rank: [path.name for path in paths] for rank, paths in found.items()} == {
        1: ["lines-1.jsonl", "lines-1-worker-10.jsonl", "lines-1-worker-2.jsonl"],
        12: ["lines-12-worker-0.jsonl"],
    }
