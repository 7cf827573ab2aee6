import importlib.util
import io
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import rich

from hvdprof import api
from hvdprof.api import cached_analysis
from hvdprof.api.cached_analysis import FOLDER, SWITCH, VARIABLES, print_cached
from hvdprof.errors import UsageError
from hvdprof.ingest import load
from hvdprof.model.run import RunAnalysis
from hvdprof.report.formats import reporter_for
from hvdprof.rundir.trusted_file import key_file
from tests.builders.places import ROOT
from tests.builders.recorded_runs import RECORDED, unpacked
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run


class Reads:
    """Counts how often a run is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number, self._read = 0, load.load_run
        monkeypatch.setattr(load, "load_run", self)

    def __call__(self, *args, **kwargs):
        self.number += 1
        return self._read(*args, **kwargs)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(tmp_path / "user"))
    monkeypatch.delenv(SWITCH)
    return tmp_path / "user" / FOLDER


@pytest.fixture
def run(tmp_path: Path) -> Path:
    cells = [SegmentSpec(parts_ms=typical_parts(10))]
    return write_run(tmp_path / "run", [PassSpec(segments=cells), PassSpec(size=2, segments=cells)])


@pytest.fixture
def reads(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def _text(analysis: RunAnalysis, name: str = "json") -> str:
    stream = io.StringIO()
    reporter_for(name).render(analysis, stream)
    return stream.getvalue()


def test_the_second_analysis_reads_no_file_of_the_run(run: Path, cache: Path, reads: Reads) -> None:
    first = api.analyze_run(run)
    second = api.analyze_run(run)
    assert reads.number == 1
    assert _text(first) == _text(second)
    assert second.run.folder == run
    (entry,) = cache.iterdir()
    assert entry.stat().st_mode & 0o777 == 0o600


def test_on_a_hit_the_analysis_is_not_imported(run: Path, cache: Path) -> None:
    code = (
        "import sys, hvdprof; a = hvdprof.analyze_run(sys.argv[1]);"
        "print(a.verdict.headline, 'hvdprof.analyze.pipeline' in sys.modules)"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", code, str(run)], check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    ]
    assert made[0].endswith(" True\n")
    assert made[1] == made[0].replace(" True\n", " False\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_run_is_the_same_from_the_cache(
    tmp_path: Path, reads: Reads, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    first = api.analyze_run(tmp_path / name)
    second = api.analyze_run(tmp_path / name)
    expected = {kind: _text(first, kind) for kind in ("json", "terminal", "report.md")}
    # A path of another form means the same run.
    assert _text(api.analyze_run(Path(name)), "terminal") == expected["terminal"]
    assert reads.number == 1
    for kind, text in expected.items():
        assert _text(second, kind) == text
    assert second.summary() == first.summary()
    for table in (*first.run.frames, *first.derived):
        here = first.run if table in first.run.frames else first
        there = second.run if table in first.run.frames else second
        pd.testing.assert_frame_equal(there.table(table), here.table(table))
    assert second.row_counts == first.row_counts
    assert second.run.row_counts == first.run.row_counts


def _touch(run: Path) -> None:
    (run / "manifest.json").touch()


def _same_size(run: Path) -> None:
    """Another content of the same length under the same time of modification."""
    path = next(iter(run.glob("passes/*/recorder/*")))
    status, content = path.stat(), path.read_bytes()
    path.write_bytes(content[:-1] + b" ")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _added(run: Path) -> None:
    (run / "forecasts").mkdir()
    (run / "forecasts" / "new.json").write_text("{}")


def _removed(run: Path) -> None:
    next(iter(run.glob("passes/*/recorder/*"))).unlink()


@pytest.mark.parametrize("change", [_touch, _same_size, _added, _removed])
def test_a_run_with_a_changed_file_is_analysed_anew(run: Path, reads: Reads, change) -> None:
    api.analyze_run(run)
    change(run)
    api.analyze_run(run)
    assert reads.number == 2


def test_a_moved_run_is_analysed_anew(run: Path, reads: Reads) -> None:
    api.analyze_run(run)
    assert api.analyze_run(run.rename(run.with_name("moved"))).run.shown_name == "moved"
    assert reads.number == 2


def test_prices_have_entries_of_their_own(
    run: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    for price in (None, 1.0, 2.0, None, 1.0):
        api.analyze_run(run, price=price)
    assert reads.number == 3
    monkeypatch.setenv("HVDPROF_PRICE", "3")
    api.analyze_run(run)
    assert reads.number == 4
    monkeypatch.setenv("HVDPROF_PRICE", "cheap")
    with pytest.raises(UsageError):
        api.analyze_run(run)


@pytest.mark.parametrize(
    ("module", "name"), [(cached_analysis, "__version__"), (np, "__version__"), (sys, "version")]
)
def test_another_version_misses(
    run: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch, module, name
) -> None:
    api.analyze_run(run)
    monkeypatch.setattr(module, name, "0.0.0")
    api.analyze_run(run)
    assert reads.number == 2


def test_changed_sources_miss(run: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    api.analyze_run(run)
    sources = cached_analysis._own_sources()
    assert "/analyze/pipeline.py" in sources
    monkeypatch.setattr(cached_analysis, "_own_sources", lambda: f"{sources} ")
    api.analyze_run(run)
    assert reads.number == 2


@pytest.mark.parametrize("place", [0, 70, -1])
def test_a_damaged_entry_is_made_anew(run: Path, cache: Path, reads: Reads, place: int) -> None:
    first = _text(api.analyze_run(run))
    (entry,) = cache.iterdir()
    content = bytearray(entry.read_bytes())
    content[place] ^= 1
    entry.write_bytes(content)
    assert _text(api.analyze_run(run)) == first
    assert reads.number == 2
    api.analyze_run(run)
    assert reads.number == 2


class Planted:
    """Its unpickling leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("seal", ["0" * 64, "", "\xe9" * 64])
def test_what_this_user_did_not_seal_is_never_unpickled(
    run: Path, cache: Path, reads: Reads, tmp_path: Path, seal: str
) -> None:
    api.analyze_run(run)
    (entry,) = cache.iterdir()
    trace = tmp_path / "trace"
    entry.write_bytes(seal.encode("latin-1") + pickle.dumps(Planted(trace)))
    api.analyze_run(run)
    assert reads.number == 2
    assert not trace.exists()
    pickle.loads(pickle.dumps(Planted(trace)))
    assert trace.exists()


def test_an_entry_of_another_run_is_not_taken(run: Path, cache: Path, reads: Reads) -> None:
    api.analyze_run(run, price=1.0)
    (first,) = cache.iterdir()
    api.analyze_run(run, price=2.0)
    (second,) = set(cache.iterdir()) - {first}
    second.write_bytes(first.read_bytes())
    api.analyze_run(run, price=2.0)
    assert reads.number == 3


def test_entries_that_others_may_write_to_are_not_read(
    run: Path, cache: Path, reads: Reads
) -> None:
    api.analyze_run(run)
    (entry,) = cache.iterdir()
    entry.chmod(0o666)
    api.analyze_run(run)
    assert reads.number == 2


def test_another_key_reads_nothing(
    run: Path, reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.analyze_run(run)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    api.analyze_run(run)
    assert reads.number == 2
    assert key_file().is_file()


@pytest.mark.parametrize("variable", ["HVDPROF_CACHE_DIR", "XDG_STATE_HOME"])
def test_without_a_place_for_cache_or_key_runs_are_analysed_each_time(
    run: Path, reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "file").write_text("stands in the way")
    monkeypatch.setenv(variable, str(tmp_path / "file"))
    first, second = (_text(api.analyze_run(run)) for _ in range(2))
    assert first == second
    assert reads.number == 2


def test_the_switch(run: Path, cache: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    api.analyze_run(run)
    api.analyze_run(run)
    assert reads.number == 2
    assert not cache.exists()


def test_a_run_in_progress_is_not_cached(
    run: Path, cache: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (run / "manifest.json").read_text()
    (run / "manifest.json").write_text(text.replace('"status": "done"', '"status": "running"'))
    monkeypatch.setattr("hvdprof.rundir.manifest.is_written", lambda *_: True)
    api.analyze_run(run)
    assert not cache.exists()


def test_a_run_that_changes_while_it_is_analysed_is_not_cached(
    run: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = load.load_run

    def changing(*args, **kwargs):
        _touch(run)
        return read(*args, **kwargs)

    monkeypatch.setattr(load, "load_run", changing)
    api.analyze_run(run)
    assert not cache.exists()


def test_a_run_with_a_folder_elsewhere_is_not_cached(run: Path, cache: Path, reads: Reads) -> None:
    (run / "passes").rename(run.with_name("elsewhere"))
    (run / "passes").symlink_to(run.with_name("elsewhere"))
    api.analyze_run(run)
    assert not cache.exists()


def test_a_link_that_leads_nowhere_among_the_sources_costs_the_cache_alone(
    run: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / ".#editing.py").symlink_to("nowhere")
    monkeypatch.setattr(cached_analysis, "__file__", str(tmp_path / "api" / "module.py"))
    monkeypatch.setattr(cached_analysis, "_own_sources", cached_analysis._own_sources.__wrapped__)
    api.analyze_run(run)
    assert not cache.exists()


def test_large_tables_are_made_again_where_they_are_used(
    run: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_analysis, "MOST_VALUES", 100)
    first = api.analyze_run(run)
    second = api.analyze_run(run)
    assert reads.number == 1
    assert second.run.row_counts == first.run.row_counts
    assert not second.run.unread
    assert reads.number == 1
    pd.testing.assert_frame_equal(second.run.steps, first.run.steps)
    pd.testing.assert_frame_equal(second.waterfall, first.waterfall)
    assert _text(second) == _text(first)
    assert reads.number == 2


def test_the_oldest_entries_go(run: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api.analyze_run(run, price=1.0)
    (first,) = cache.iterdir()
    monkeypatch.setattr(cached_analysis, "MOST_BYTES", 2.5 * first.stat().st_size)
    os.utime(first, ns=(1, 1))
    for price in (2.0, 3.0):
        api.analyze_run(run, price=price)
    assert len(list(cache.iterdir())) == 2
    assert not first.exists()


class Printed:
    """What `print_cached` writes to a stream of 80 columns, and how often it had to be rendered."""

    def __init__(self, run: Path) -> None:
        self.run, self.number = run, 0

    def __call__(self, price: float | None = None, stream: io.StringIO | None = None) -> str:
        stream = Stream() if stream is None else stream

        def render(to):
            self.number += 1
            reporter_for("terminal").render(api.analyze_run(self.run, price=price), to)

        print_cached(self.run, price, stream, render)
        return stream.getvalue()


class Stream(io.StringIO):
    encoding = "utf-8"

    def __init__(self, *, is_terminal: bool = False) -> None:
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.fixture
def printed(run: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Printed:
    monkeypatch.setenv("COLUMNS", "80")
    return Printed(run)


def test_what_was_printed_is_printed_again(printed: Printed, reads: Reads, cache: Path) -> None:
    first, second = printed(), printed()
    assert (printed.number, reads.number) == (1, 1)
    assert first == second == _text(api.analyze_run(printed.run), "terminal")
    assert {entry.stat().st_mode & 0o777 for entry in cache.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "variables",
    [
        {"COLUMNS": "120"},
        {"NO_COLOR": "1"},
        {"FORCE_COLOR": "1"},
        {"LC_ALL": "C"},
        {"HVDPROF_PRICE": "2"},
        {"UNICODE_VERSION": "4.1.0"},
    ],
)
def test_other_variables_print_anew(
    printed: Printed, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    first = printed()
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    there = printed()
    assert printed.number == 2
    assert (there != first) == bool({"COLUMNS", "FORCE_COLOR"} & set(variables))


def test_every_variable_that_rich_reads_is_in_the_name_of_an_entry() -> None:
    sources = Path(rich.__file__).parent.rglob("*.py")
    read = r"""environ(?:\.get\(|\[)\s*["'](\w+)|getenv\(\s*["'](\w+)"""
    names = {"".join(one) for path in sources for one in re.findall(read, path.read_text("utf-8"))}
    assert {"COLUMNS", "NO_COLOR", "TERM", "UNICODE_VERSION"} <= names
    assert not {name for name in names if not name.startswith(VARIABLES)}


def test_other_terminals_and_places_print_anew(
    printed: Printed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = printed()
    assert printed(stream=Stream(is_terminal=True)) != plain
    assert printed(stream=Stream(is_terminal=True)) != plain
    assert printed.number == 2
    monkeypatch.setattr("os.get_terminal_size", lambda *_: os.terminal_size((90, 20)))
    printed()
    assert printed.number == 3
    monkeypatch.chdir(tmp_path)
    assert "hvdprof dashboard run" in printed()
    assert printed.number == 4
    printed.run = Path("run")
    printed()
    assert printed.number == 5


@pytest.mark.parametrize("change", [_touch, _same_size, _added, _removed])
def test_a_changed_file_prints_anew(printed: Printed, reads: Reads, change) -> None:
    printed()
    change(printed.run)
    printed()
    assert (printed.number, reads.number) == (2, 2)


@pytest.mark.parametrize("library", ["numpy", "pandas", "pyarrow", "scipy", "rich"])
def test_another_library_prints_anew(
    printed: Printed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str
) -> None:
    printed()
    spec = importlib.util.find_spec(library)
    other = SimpleNamespace(origin=str(tmp_path / "other.py"))
    for content in ("a", "b"):
        Path(other.origin).write_text(content)
        monkeypatch.setattr(
            cached_analysis, "find_spec", lambda name: other if name == library else spec
        )
        printed()
    assert printed.number == 3
    printed()
    assert printed.number == 3


def test_prices_are_printed_apart(printed: Printed) -> None:
    texts = [printed(price) for price in (None, 1.0, 2.0, None, 1.0)]
    assert printed.number == 3
    assert texts[:2] == texts[3:]


@pytest.mark.parametrize("place", [0, 70, -1])
def test_a_damaged_text_is_made_anew(printed: Printed, cache: Path, place: int) -> None:
    first = printed()
    for entry in cache.iterdir():
        content = bytearray(entry.read_bytes())
        content[place] ^= 1
        entry.write_bytes(content)
    assert printed() == first
    assert printed.number == 2


def test_a_text_is_cached_only_where_its_analysis_is(
    printed: Printed, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_analysis, "_write", lambda *_: None)
    printed()
    assert not cache.exists()
    monkeypatch.undo()
    monkeypatch.setenv(SWITCH, "0")
    printed()
    printed()
    assert printed.number == 3


def test_a_text_of_a_run_that_changes_meanwhile_is_not_cached(
    printed: Printed, cache: Path
) -> None:
    def render(_stream):
        api.analyze_run(printed.run)
        _touch(printed.run)
        api.analyze_run(printed.run)

    print_cached(printed.run, None, Stream(), render)
    printed()
    assert printed.number == 1


def test_an_output_that_fails_is_not_cached(printed: Printed, cache: Path) -> None:
    stream = Stream()
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        printed(stream=stream)
    assert len(list(cache.iterdir())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_named", [True, False])
def test_analyze_prints_again_without_pandas(run: Path, cache: Path, is_named: bool) -> None:
    # Without a path it is the newest run in ./runs.
    runs = run.parent / "runs"
    runs.symlink_to(run.parent)
    script = (
        "import sys, atexit\n"
        "from hvdprof.cli.main import main\n"
        "atexit.register(lambda: sys.stderr.write(str('pandas' in sys.modules)))\n"
        f"sys.argv = ['hvdprof', 'analyze', *{[str(run)] * is_named}]\n"
        "main()\n"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", script], cwd=run.parent, check=True, capture_output=True
        )
        for _ in range(2)
    ]
    assert [one.stderr.endswith(b"True") for one in made] == [True, False]
    assert made[0].stdout == made[1].stdout
    assert made[0].stdout.count(b"\n") > 10


@pytest.mark.heavy
def test_several_processes_at_once_give_the_same(run: Path, cache: Path) -> None:
    command = [sys.executable, "-m", "hvdprof", "analyze", str(run), "--format", "json"]
    running = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert printed[0]
    assert len(set(printed)) == 1
    assert len(list(cache.iterdir())) == 1
