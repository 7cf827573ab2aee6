import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from typer.testing import CliRunner

from hvdprof.cli.main import build_app
from hvdprof.dashboards.app import create_app
from hvdprof.dashboards.pages.diagnosis import found_content
from hvdprof.dashboards.run_store import RunStore
from hvdprof.errors import MissingExtraError, UnreadableInputError
from tests.builders.flight_dumps import dump, write_dumps
from tests.builders.run_directory import PassSpec, write_run


def dashboard(*arguments):
    result = CliRunner().invoke(build_app(), ["dashboard", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def asked_for(access):
    """Which of both passwords opens the dashboard."""
    server = create_app(RunStore([]), access=access).server
    answers = {
        text: server.test_client().get("/", auth=("me", text)) for text in ("secret", "other")
    }
    (found,) = [text for text, answer in answers.items() if answer.status_code == 200]
    return found


@pytest.fixture
def offered(monkeypatch):
    """The folders and the address that would be served."""
    seen = {}

    def serve(paths, *, watched, address, on_ready, access, price):
        seen.update(folders=[path.name for path in paths], price=price)
        seen["host"], seen["port"] = address
        seen.update(access=access, watched=[folder.name for folder in watched])
        on_ready("http://127.0.0.1:1/")

    monkeypatch.setattr("hvdprof.dashboards.app.serve", serve)
    monkeypatch.setattr("webbrowser.open", lambda address: seen.update(opened=address))
    return seen


def test_a_folder_of_runs_and_a_run_are_offered(tmp_path, offered):
    write_run(tmp_path / "runs" / "one", [PassSpec()])
    write_run(tmp_path / "runs" / "two", [PassSpec()])
    alone = write_run(tmp_path / "three", [PassSpec()])
    dashboard(tmp_path / "runs", alone, "--no-open")
    assert offered["folders"] == ["three"]
    assert offered["watched"] == ["runs"]
    assert offered["host"] == "127.0.0.1"
    assert offered["port"] == 0
    assert "opened" not in offered
    assert offered["price"] is None
    dashboard(alone, "--no-open", "--price", "2.5")
    assert offered["price"] == 2.5


def test_without_a_folder_the_runs_here_are_offered(tmp_path, offered, monkeypatch):
    write_run(tmp_path / "runs" / "one", [PassSpec()])
    monkeypatch.chdir(tmp_path)
    result = dashboard()
    assert offered["watched"] == ["runs"]
    assert result.stderr.startswith("hvdprof: the newest run in ./runs is runs/one (20")
    assert "http://127.0.0.1:1/" in result.stdout


def test_a_folder_without_runs_is_watched_and_said(tmp_path, offered):
    write_run(tmp_path / "runs" / "one", [PassSpec()])
    (tmp_path / "empty").mkdir()
    result = dashboard(tmp_path / "runs", tmp_path / "empty", "--no-open")
    assert offered["watched"] == ["runs", "empty"]
    assert f"{tmp_path / 'empty'} holds no run directory yet" in result.stderr
    assert "runs holds" not in result.stderr


@pytest.mark.heavy
def test_a_folder_of_dumps_is_one_page_with_its_verdict_first(tmp_path, offered):
    dumps = {rank: dump(enqueued=6 - rank, late_ns=rank) for rank in range(2)}
    folder = write_dumps(tmp_path / "dumps", dumps)
    (folder / ".hidden").write_text("")
    result = dashboard(folder, "--no-open")
    # Runs that appear beside the dumps are listed, too.
    assert (offered["folders"], offered["watched"]) == (["dumps"], ["dumps"])
    assert "holds no run directory" not in result.stderr
    store = RunStore([folder])
    shown = str(found_content(store.finished(store.ids[0])))
    # "Hang" itself is a link to its definition.
    finding = ": rank 1 has not submitted nccl:all_reduce (Seq 6"
    assert shown.index("Hang") < shown.index(finding) < shown.index("process groups")


@pytest.mark.heavy
def test_runs_that_appear_beside_files_are_listed(tmp_path):
    dumps = {rank: dump(enqueued=6 - rank, late_ns=rank) for rank in range(2)}
    folder = write_dumps(tmp_path / "dumps", dumps)
    store = RunStore([folder], watched=[folder], check_every_s=0.0)
    assert store.ids == ["dumps"]
    write_run(folder / "later", [PassSpec()])
    assert store.ids == ["dumps", "later"]
    assert "rank 1 has not submitted" in str(found_content(store.finished("dumps")))
    assert store.entry("later") is not None


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(UnreadableInputError, match="There is no folder"):
        dashboard(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableInputError, match="pipe is neither a folder nor a regular file"):
        dashboard(tmp_path / "pipe")


def test_a_standalone_file_is_offered(tmp_path, offered):
    (tmp_path / "timeline.json").write_text("[]")
    dashboard(tmp_path / "timeline.json", "--no-open")
    assert offered["folders"] == ["timeline.json"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_on_this_machine_alone_nothing_is_warned_of(tmp_path, offered, host):
    folder = write_run(tmp_path / "one", [PassSpec()])
    result = dashboard(folder, "--no-open", "--host", host)
    assert result.stderr == f"hvdprof: reading {folder} ...\n"
    assert offered["access"].token


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "node1"])
def test_a_host_that_others_reach_is_warned_of(tmp_path, offered, host):
    folder = write_run(tmp_path / "one", [PassSpec()])
    result = dashboard(folder, "--no-open", "--host", host)
    assert "unencrypted" in result.stderr
    assert offered["access"].token
    result = dashboard(folder, "--no-open", "--host", host, "--no-token")
    assert "every user who reaches this port can read the runs" in result.stderr
    assert "--password" in result.stderr
    assert offered["access"].token is None


@pytest.mark.heavy
def test_the_password_comes_from_the_option_or_the_environment(tmp_path, offered, monkeypatch):
    folder = write_run(tmp_path / "one", [PassSpec()])
    result = dashboard(folder, "--no-open", "--host", "0.0.0.0", "--password", "secret")
    assert asked_for(offered["access"]) == "secret"
    assert "secret" not in result.output
    monkeypatch.setenv("HVDPROF_DASHBOARD_PASSWORD", "other")
    dashboard(folder, "--no-open")
    assert asked_for(offered["access"]) == "other"


def test_without_the_extra_the_install_command_is_printed(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "one", [PassSpec()])
    monkeypatch.delitem(sys.modules, "hvdprof.dashboards.app", raising=False)
    monkeypatch.setitem(sys.modules, "dash", None)
    with pytest.raises(MissingExtraError) as error:
        dashboard(folder)
    assert error.value.hint == "pip install 'hvdprof[dashboard]'"


@pytest.mark.slow
def test_it_serves_on_a_free_port_until_interrupted(tmp_path):
    folder = write_run(tmp_path / "one", [PassSpec()])
    process = subprocess.Popen(
        [sys.executable, "-m", "hvdprof", "dashboard", str(folder), "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        # What takes the time is said before the address.
        assert process.stdout.readline() == f"hvdprof: reading {folder} ...\n"
        line = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)[0]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address.partition("?")[0], timeout=20)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address, timeout=20) as answer:
            assert b"hvdprof" in answer.read()
            assert "token" not in answer.url
        process.send_signal(signal.SIGINT)
        complaints, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert complaints == ""
