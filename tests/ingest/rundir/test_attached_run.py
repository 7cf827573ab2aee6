import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from hvdprof.api import analyze_files, analyze_run, load_run
from hvdprof.errors import StorageError, UnreadableInputError, UsageError
from hvdprof.ingest.rundir import attached_size
from hvdprof.ingest.rundir.attach_sources import Given
from hvdprof.ingest.rundir.attached_run import Stated, attach
from hvdprof.model.run import Verdict
from hvdprof.rundir.attached import AttachedKind, attached_files
from hvdprof.rundir.manifest import Manifest, Mode
from tests.builders import nccl_log
from tests.builders.places import recording
from tests.builders.run_spec import SegmentSpec
from tests.builders.timeline_text import timeline_text

KILLED = (
    "[1]<stdout>:step 1\n"
    "[0]<stderr>:RuntimeError: out of luck\n"
    "Process 1 exit with status code 137. Terminating remaining workers.\n"
)


@pytest.fixture
def timeline(tmp_path: Path) -> Path:
    path = tmp_path / "given" / "horovod.json"
    path.parent.mkdir()
    path.write_text(timeline_text(SegmentSpec(num_steps=12), 2, 1_000_000_000))
    return path


@pytest.fixture
def nccl_logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = nccl_log.job()
    for host in ("oak0", "oak1"):
        (folder / f"nccl.{host}").write_text(
            "\n".join(line for line in lines if not line.startswith("oak") or host in line)
        )
    return folder


def output(folder: Path, name: str, text: str = KILLED) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.heavy
def test_a_file_whose_name_is_no_utf_8_is_attached(tmp_path: Path, timeline: Path) -> None:
    named = timeline.rename(tmp_path / os.fsdecode(b"time\xffline.json"))
    attach(tmp_path / "run", Given(timelines=[named]), Stated(name="mine", size=2))
    (file,) = attached_files(load_run(tmp_path / "run").manifest)
    assert Path(file.given).name.startswith("time")
    assert (tmp_path / "run" / file.copy).read_bytes() == named.read_bytes()


@pytest.mark.heavy
def test_files_become_a_run_that_can_be_analysed(
    tmp_path: Path, timeline: Path, nccl_logs: Path
) -> None:
    run = tmp_path / "run"
    printed = output(tmp_path, "job.out")
    given = Given(timelines=[timeline], nccl_logs=[nccl_logs / "nccl.*"], outputs=[printed])
    manifest = attach(run, given, Stated(name="mine", size=4, batch_size=32))
    assert manifest.warnings == []
    for file in attached_files(manifest):
        assert (run / file.copy).read_bytes() == Path(file.given).read_bytes()
    loaded = load_run(run)
    assert loaded.recorded
    assert len(loaded.table("inferred_steps")) > 2
    assert len(loaded.nccl) == 1
    assert loaded.table("nccl_communicators")["num_ranks"].tolist() == [4]
    assert loaded.table("incidents")["failed_rank"].dropna().tolist() == [1]
    assert loaded.segments[["model", "size", "batch_size", "mode"]].to_numpy().tolist() == [
        ["mine", 4, 32, Mode.TRACE]
    ]
    assert not loaded.notes
    analysis = analyze_run(loaded)
    assert "no-rank-evidence" not in set(analysis.findings["id"])
    assert not [one for one in analysis.warnings if "recordings of all ranks" in one]
    sentence = analysis.verdict.sentence
    assert "steady steps of about" in sentence
    # As of the file alone.
    assert analyze_files(load_run(printed)).files[0].verdict in sentence


def test_the_number_of_ranks_is_read_from_communicators(tmp_path: Path, nccl_logs: Path) -> None:
    manifest = attach(tmp_path / "run", Given(nccl_logs=[nccl_logs]), Stated(name="a"))
    assert manifest.passes[0].size == 4


def test_the_number_of_ranks_is_read_from_tags(tmp_path: Path) -> None:
    printed = output(tmp_path, "job.out")
    assert attach(tmp_path / "r", Given(outputs=[printed]), Stated(name="a")).passes[0].size == 2


def test_the_number_of_ranks_is_read_from_tags_of_hydra(tmp_path: Path) -> None:
    text = "[0] step 1\n[2] Traceback (most recent call last):\n[2] RuntimeError: out of luck\n"
    printed = output(tmp_path, "job.out", text)
    manifest = attach(tmp_path / "run", Given(outputs=[printed]), Stated(name="a"))
    assert manifest.passes[0].size == 3
    incidents = load_run(tmp_path / "run").table("incidents")
    assert incidents[["rank", "line", "message"]].astype(object).to_numpy().tolist() == [
        [2, 3, "RuntimeError: out of luck"]
    ]


@pytest.mark.parametrize("text", ["[0]<stdout>:step 1\n", "[0] a\n[0] b\n[0] c\n"])
def test_tags_of_rank_0_alone_do_not_give_the_number_of_ranks(tmp_path: Path, text: str) -> None:
    printed = output(tmp_path, "job.out", text)
    with pytest.raises(UsageError, match="how many ranks"):
        attach(tmp_path / "run", Given(outputs=[printed]), Stated(name="a"))


def test_a_number_of_ranks_that_the_files_contradict_is_a_warning(
    tmp_path: Path, nccl_logs: Path
) -> None:
    manifest = attach(tmp_path / "run", Given(nccl_logs=[nccl_logs]), Stated(name="a", size=2))
    assert manifest.passes[0].size == 2
    assert manifest.warnings == ["--np 2 was stated, but NCCL made a communicator of 4 ranks."]


def test_an_unknown_number_of_ranks_is_an_error(tmp_path: Path) -> None:
    printed = output(tmp_path, "job.out", "hello\n")
    with pytest.raises(UsageError, match="how many ranks") as error:
        attach(tmp_path / "run", Given(outputs=[printed]), Stated(name="a"))
    assert "--np" in error.value.hint
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_ranks_are_read_from_file_names_that_differ_by_rank(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    for rank in range(2):
        output(folder, f"rank.{rank}/stdout", "ValueError: no such thing\n")
        output(folder, f"rank.{rank}/stderr", "fine\n")
    manifest = attach(tmp_path / "run", Given(outputs=[folder]), Stated(name="a"))
    assert manifest.passes[0].size == 2
    assert sorted(file.rank for file in attached_files(manifest) if file.rank is not None) == [
        *(0, 0),
        *(1, 1),
    ]
    loaded = load_run(tmp_path / "run")
    sentence = analyze_run(loaded).verdict.sentence
    where = "rank-0-stdout: Failure in line 1"
    assert f"{where}: rank 0: ValueError: no such thing." in sentence
    incidents = loaded.table("incidents")
    assert dict(zip(incidents["file"].astype(str), incidents["rank"], strict=True)) == {
        "passes/01-np2-attached/output/rank-0-stdout": 0,
        "passes/01-np2-attached/output/rank-1-stdout": 1,
    }


@pytest.mark.heavy
def test_ranks_that_printed_nothing_have_files_too(tmp_path: Path, nccl_logs: Path) -> None:
    folder = tmp_path / "out"
    for rank, text in enumerate(("ValueError: no such thing\n", "", "")):
        output(folder, f"rank.{rank}/stderr", text)
    given = Given(outputs=[folder])
    manifest = attach(tmp_path / "run", given, Stated(name="a"))
    assert manifest.passes[0].size == 3
    assert load_run(tmp_path / "run").table("incidents")["rank"].tolist() == [0]
    (nccl_logs / "nccl.oak2").touch()
    attach(tmp_path / "of_nccl", Given(nccl_logs=[nccl_logs]), Stated(name="a"))
    loaded = load_run(tmp_path / "of_nccl")
    assert loaded.table("nccl_communicators")["num_ranks"].tolist() == [4]


@pytest.mark.parametrize("option", ["timelines", "nccl_logs", "outputs"])
def test_files_that_are_all_empty_are_refused(tmp_path: Path, option: str) -> None:
    paths = [output(tmp_path, name, "") for name in ("a.out", "b.out")]
    with pytest.raises(UnreadableInputError, match=r"a\.out is recognised as an empty file"):
        attach(tmp_path / "run", Given(**{option: paths}), Stated(name="a", size=2))


def test_one_name_with_a_rank_is_that_of_the_whole_job(tmp_path: Path) -> None:
    printed = output(tmp_path, "kill_rank1.out")
    manifest = attach(tmp_path / "run", Given(outputs=[printed]), Stated(name="a"))
    (file,) = attached_files(manifest)
    assert file.rank is None
    assert file.copy.endswith("/stdout.txt")


@pytest.mark.heavy
def test_nccl_lines_in_the_output_are_read(tmp_path: Path) -> None:
    printed = output(tmp_path, "job.out", "\n".join(nccl_log.job()))
    manifest = attach(tmp_path / "run", Given(outputs=[printed]), Stated(name="a"))
    assert manifest.passes[0].size == 4
    assert load_run(tmp_path / "run").table("nccl_communicators")["num_ranks"].tolist() == [4]


@pytest.mark.heavy
def test_what_the_job_printed_into_its_nccl_log_is_read(tmp_path: Path) -> None:
    log = output(tmp_path, "job.log", "\n".join([*nccl_log.job(), KILLED]))
    attach(tmp_path / "run", Given(nccl_logs=[log]), Stated(name="a"))
    run = load_run(tmp_path / "run")
    assert run.table("nccl_communicators")["num_ranks"].tolist() == [4]
    assert not run.table("incidents").empty


def test_output_is_not_read_for_the_ranks_that_a_timeline_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise AssertionError(path)

    monkeypatch.setattr(attached_size, "read_printed_file", refuse)
    printed = output(tmp_path, "job.out")
    given = Given(timelines=[recording("04_gloo_straggler_rank1_cache_off")], outputs=[printed])
    assert attach(tmp_path / "run", given, Stated(name="a")).passes[0].size == 2


def test_output_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(attached_size, "read_printed_file", refuse)
    printed = output(tmp_path, "job.out")
    with pytest.raises(UnreadableInputError, match=r"job\.out cannot be read: Input/output error"):
        attach(tmp_path / "run", Given(outputs=[printed]), Stated(name="a", size=2))


def test_files_of_one_name_get_copies_of_their_own(tmp_path: Path) -> None:
    paths = [output(tmp_path / name, "job.out", name) for name in ("a", "b")]
    manifest = attach(tmp_path / "run", Given(outputs=paths), Stated(name="a", size=1))
    copies = [(tmp_path / "run" / file.copy).read_text() for file in attached_files(manifest)]
    assert copies == ["a", "b"]


@pytest.mark.parametrize("option", ["timelines", "nccl_logs"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, option: str) -> None:
    printed = output(tmp_path, "job.out")
    with pytest.raises(UnreadableInputError):
        attach(tmp_path / "run", Given(**{option: [printed]}), Stated(name="a", size=2))
    assert not (tmp_path / "run").exists()


def test_a_wrong_member_of_an_archive_is_looked_at_by_the_archive(tmp_path: Path) -> None:
    archive = tmp_path / "job.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("job/x.log", KILLED)
    with pytest.raises(
        UnreadableInputError, match=r"job\.zip/job/x\.log is recognised as text"
    ) as error:
        attach(tmp_path / "run", Given(timelines=[archive]), Stated(name="a", size=2))
    assert error.value.hint == f"See what the archive holds: hvdprof analyze {archive}"


def test_an_attached_run_is_closed_to_others(tmp_path: Path) -> None:
    run = tmp_path / "new" / "run"
    attach(run, Given(outputs=[output(tmp_path, "job.out")]), Stated(name="a", size=2))
    modes = {path.stat().st_mode & 0o777 for path in (run, *run.rglob("*"))}
    assert modes == {0o700, 0o600}
    run.parent.chmod(0o777)
    with pytest.raises(StorageError, match="every user may write to"):
        attach(run.with_name("b"), Given(outputs=[tmp_path / "job.out"]), Stated(name="a", size=2))


def test_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to attach"):
        attach(tmp_path / "run", Given(), Stated(name="a", size=2))


def test_a_run_is_replaced_only_on_demand_and_only_an_attached_one(tmp_path: Path) -> None:
    printed = output(tmp_path, "job.out")
    given, run = Given(outputs=[printed]), tmp_path / "run"
    attach(run, given, Stated(name="first"))
    with pytest.raises(StorageError, match="not overwritten"):
        attach(run, given, Stated(name="second"))
    assert Manifest.read(run).name == "first"
    attach(run, given, Stated(name="second"), overwrite=True)
    assert Manifest.read(run).name == "second"
    own = tmp_path / "own"
    output(own, "thesis.tex", "years of work")
    with pytest.raises(StorageError, match="not made by"):
        attach(own, given, Stated(name="third"), overwrite=True)
    assert (own / "thesis.tex").exists()


def test_a_run_that_cannot_be_replaced_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, run = Given(outputs=[output(tmp_path, "job.out")]), tmp_path / "run"
    attach(run, given, Stated(name="first"))
    rename = Path.replace

    def refused(path: Path, target: Path) -> Path:
        if path.name == "run" and path != run:
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(StorageError, match="Input/output error"):
        attach(run, given, Stated(name="second"), overwrite=True)
    assert Manifest.read(run).name == "first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.out", "run"]


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    printed = output(tmp_path / "given", "job.out")
    with pytest.raises(StorageError, match="No space left"):
        attach(tmp_path / "run", Given(outputs=[printed]), Stated(name="a"))
    assert [path.name for path in tmp_path.iterdir()] == ["given"]


def test_kinds_are_plain_text_in_the_manifest(tmp_path: Path) -> None:
    printed = output(tmp_path, "job.out")
    attach(tmp_path / "run", Given(outputs=[printed]), Stated(name="a"))
    settings = json.loads((tmp_path / "run" / "manifest.json").read_text())["settings"]
    assert [entry["kind"] for entry in settings["attached"]] == [AttachedKind.OUTPUT]


@pytest.mark.parametrize(
    "changed", [{"kept": "../../etc/passwd"}, {"kept": "/etc/passwd"}, {"kind": "x"}, {"rank": "0"}]
)
def test_a_foreign_list_of_attached_files_is_checked(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    given = Given(outputs=[output(tmp_path, "job.log")])
    manifest = attach(tmp_path / "run", given, Stated(name="a"))
    manifest.settings["attached"][0] |= changed
    with pytest.raises(UnreadableInputError, match="list of attached files is damaged"):
        attached_files(manifest)
    manifest.settings["attached"] = 5
    with pytest.raises(UnreadableInputError, match="list of attached files is damaged"):
        attached_files(manifest)


def watchdog(rank: int, enqueued: int) -> str:
    """What PyTorch's watchdog of one rank prints at a time-out."""
    return (
        f"[rank{rank}]:[E1120 10:00:00.000000000 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID "
        f"0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 5 PG "
        f"status: last enqueued work: {enqueued}, last completed work: 4\n"
    )


def verdict_of(folder: Path, *outputs: Path) -> Verdict:
    attach(folder, Given(outputs=list(outputs)), Stated(name="a", size=2))
    return analyze_run(load_run(folder)).verdict


@pytest.mark.heavy
def test_the_verdict_leads_with_the_most_severe_finding(tmp_path: Path) -> None:
    text = watchdog(0, 9) + watchdog(1, 5)
    printed = output(tmp_path, "job.out", text)
    verdict = verdict_of(tmp_path / "run", printed)
    alone = analyze_files(load_run(printed)).files[0].verdict
    assert verdict.sentence == alone
    assert alone.startswith("2 errors, first: rank 1 behind (4 collectives missing); fix: ")
    assert "hvdprof run --launcher torchrun --np 1,2,4" not in verdict.caveat


@pytest.mark.heavy
def test_an_error_comes_before_a_failure_in_another_output(tmp_path: Path) -> None:
    outputs = [
        output(tmp_path, "out/rank.0/stdout", watchdog(0, 9) + "ValueError: no such thing\n"),
        output(tmp_path, "out/rank.1/stdout", "ValueError: late\n" + watchdog(1, 5)),
    ]
    sentence = verdict_of(tmp_path / "run", *outputs).sentence
    assert sentence == (
        "rank-1-stdout: Failure in line 1: rank 1: ValueError: late. "
        "Behind it: rank 1 behind (4 collectives missing)."
    )


@pytest.mark.heavy
def test_a_warning_is_the_verdict_where_nothing_else_is(tmp_path: Path) -> None:
    lines = nccl_log.job(extra=["NCCL_IB_DISABLE set by environment to 1."])
    printed = output(tmp_path, "a.out", "\n".join(lines))
    assert verdict_of(tmp_path / "run", printed).sentence.startswith("Warning: ")
