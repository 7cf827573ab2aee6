import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import pytest

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.machine.install import horovod_features as horovod_build
from hvdprof.machine.install.horovod_features import (
    MOST_CACHED,
    HorovodBuild,
    HorovodProblem,
    ask_horovod,
    forget_horovod,
    parse_answer,
    require_horovod,
)

MARK = "hvdprof-horovod-build:"
RECORD = {
    "installed": True,
    "version": "0.28.1",
    "torch_version": "2.13.0+cu130",
    "torch": True,
    "tensorflow": False,
    "mpi": True,
    "gloo": True,
    "nccl": True,
    "cuda_available": True,
    "cuda_device_count": 8,
    "nccl_version": "2.27.3",
}
BROKEN = """Traceback (most recent call last):
  File "<string>", line 8, in <module>
  File "/v/horovod/torch/mpi_ops.py", line 33, in <module>
    from horovod.torch import mpi_lib_v2 as mpi_lib
ImportError: /v/horovod/torch/mpi_lib_v2.so: undefined symbol: _ZN2at4emptyEN3c108ArrayRefIlEE
"""


@pytest.fixture(autouse=True)
def _ask_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HVDPROF_CACHE_DIR", str(tmp_path / "cache"))
    forget_horovod()


def test_answer_of_a_gpu_build_among_other_output() -> None:
    stdout = f"a warning of a library\n{MARK}{json.dumps(RECORD)}\n"
    build = parse_answer(0, stdout, "")
    assert isinstance(build, HorovodBuild)
    assert (build.nccl, build.cuda_device_count, build.nccl_version) == (True, 8, "2.27.3")


def test_a_build_for_tensorflow_alone_names_it() -> None:
    of_torch = {"torch_version": "", "torch": False, "cuda_available": False, "nccl": False}
    record = RECORD | of_torch | {"tensorflow": True, "tensorflow_version": "2.15.1"}
    build = parse_answer(0, f"{MARK}{json.dumps(record)}\n", "")
    assert isinstance(build, HorovodBuild)
    assert build.framework == "TensorFlow 2.15.1"
    assert isinstance(parse_answer(0, f"{MARK}{json.dumps(RECORD)}\n", ""), HorovodBuild)


def test_not_installed_is_none() -> None:
    assert parse_answer(0, f'{MARK}{{"installed": false}}\n', "") is None


def test_a_broken_import_says_why() -> None:
    problem = parse_answer(1, "", BROKEN)
    assert isinstance(problem, HorovodProblem)
    assert problem.reason.startswith("ImportError: /v/horovod/torch/mpi_lib_v2.so: undefined")


@pytest.mark.parametrize(
    ("code", "words"), [(-11, "ended by signal 11"), (3, "ended with code 3"), (0, "code 0")]
)
def test_a_silent_end_says_how(code: int, words: str) -> None:
    problem = parse_answer(code, "", "")
    assert isinstance(problem, HorovodProblem)
    assert words in problem.reason


def write_interpreter(path: Path, lines: list[str]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_the_child_is_asked_once(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    answer = f"echo '{MARK}{json.dumps(RECORD)}'"
    python = write_interpreter(tmp_path / "bin/python", [f"echo x >> {asked}", answer])
    assert ask_horovod(python) == ask_horovod(python)
    assert asked.read_text() == "x\n"
    forget_horovod()
    assert require_horovod(python).version == "0.28.1"
    assert asked.read_text() == "x\nx\n"


@dataclass(frozen=True)
class Interpreter:
    """An interpreter whose Horovod rests on one library and on the absence of another place."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "library.so").write_text("as built")
        files = [str(self.folder / name) for name in ("library.so", "horovod/__init__.py")]
        answer = MARK + json.dumps(RECORD | {"files": dict.fromkeys(files, ())})
        asked = self.folder / "asked"
        write_interpreter(self.folder / "python", [f"echo x >> {asked}", f"echo '{answer}'"])

    def require(self) -> HorovodBuild:
        """What the next command gets."""
        forget_horovod()
        return require_horovod(str(self.folder / "python"))

    @property
    def asked(self) -> int:
        """How often the interpreter was started."""
        return len((self.folder / "asked").read_text().split())

    @property
    def cached(self) -> list[Path]:
        """The answers in the cache."""
        return sorted((self.folder / "cache" / "horovod").glob("*"))


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Interpreter:
    monkeypatch.setattr(horovod_build, "GPU_DEVICES", (str(tmp_path / "nvidia*"),))
    return Interpreter(tmp_path)


def test_the_next_command_reads_the_answer(interpreter: Interpreter) -> None:
    first = interpreter.require()
    assert interpreter.require() == first
    assert interpreter.require().files.keys() == first.files.keys()
    assert interpreter.asked == 1
    (file,) = interpreter.cached
    assert file.stat().st_mode & 0o777 == 0o600


def test_whoever_checks_horovod_asks_it(interpreter: Interpreter) -> None:
    interpreter.require()
    forget_horovod()
    assert ask_horovod(str(interpreter.folder / "python")) is not None
    assert interpreter.asked == 2


def test_another_build_is_asked(interpreter: Interpreter) -> None:
    interpreter.require()
    (interpreter.folder / "library.so").write_text("built anew")
    interpreter.require()
    interpreter.require()
    assert interpreter.asked == 2
    os.utime(interpreter.folder / "library.so", (1, 1))
    interpreter.require()
    assert interpreter.asked == 3


def test_a_horovod_that_is_found_first_is_asked(interpreter: Interpreter) -> None:
    interpreter.require()
    (interpreter.folder / "horovod").mkdir()
    (interpreter.folder / "horovod" / "__init__.py").touch()
    interpreter.require()
    assert interpreter.asked == 2


@pytest.mark.parametrize("variable", ["LD_LIBRARY_PATH", "PYTHONPATH", "PATH"])
def test_what_loads_another_library_has_an_answer_of_its_own(
    monkeypatch: pytest.MonkeyPatch, interpreter: Interpreter, variable: str
) -> None:
    interpreter.require()
    with monkeypatch.context() as other:
        other.setenv(variable, f"{os.environ.get(variable, '')}{os.pathsep}/elsewhere")
        interpreter.require()
        assert interpreter.asked == 2
    interpreter.require()
    assert interpreter.asked == 2


def test_where_gpus_are_they_are_counted_each_time(interpreter: Interpreter) -> None:
    (interpreter.folder / "nvidia0").touch()
    interpreter.require()
    interpreter.require()
    assert interpreter.asked == 2
    assert not interpreter.cached


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": "0.28.1"}', "\0" * 99])
def test_a_broken_answer_is_none(interpreter: Interpreter, text: str) -> None:
    interpreter.require()
    (file,) = interpreter.cached
    file.write_text(text)
    assert interpreter.require().version == "0.28.1"
    assert interpreter.asked == 2
    interpreter.require()
    assert interpreter.asked == 2


def test_an_answer_that_others_could_write_is_none(interpreter: Interpreter) -> None:
    interpreter.require()
    (file,) = interpreter.cached
    file.chmod(0o622)
    interpreter.require()
    assert interpreter.asked == 2


def test_a_problem_is_asked_each_time(interpreter: Interpreter) -> None:
    path = interpreter.folder / "python"
    working = path.read_text()
    write_interpreter(path, ["echo 'ImportError: libmpi.so.40' >&2", "exit 1"])
    with pytest.raises(EnvironmentNotReadyError):
        interpreter.require()
    path.write_text(working)
    assert interpreter.require().version == "0.28.1"


def test_a_home_that_cannot_be_written_to(interpreter: Interpreter) -> None:
    (interpreter.folder / "cache").write_text("a file is in the way")
    interpreter.require()
    assert interpreter.require().version == "0.28.1"
    assert interpreter.asked == 2


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch, interpreter: Interpreter) -> None:
    for name in ("HVDPROF_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pathlib.Path.home", Mock(side_effect=RuntimeError("no home")))
    interpreter.require()
    assert interpreter.require().version == "0.28.1"
    assert interpreter.asked == 2


def test_several_ask_at_once(interpreter: Interpreter) -> None:
    program = (
        "from hvdprof.machine.install import horovod_features\n"
        f"horovod_features.GPU_DEVICES = ()\n"
        f"print(horovod_features.require_horovod({str(interpreter.folder / 'python')!r}).version)"
    )
    commands = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [command.communicate()[0] for command in commands] == ["0.28.1\n"] * 4
    asked = interpreter.asked
    interpreter.require()
    assert interpreter.asked == asked
    assert [file.suffix for file in interpreter.cached] == [".json"]


def test_the_cache_stays_small(monkeypatch: pytest.MonkeyPatch, interpreter: Interpreter) -> None:
    for number in range(MOST_CACHED + 2):
        monkeypatch.setenv("LD_LIBRARY_PATH", f"/job/{number}")
        interpreter.require()
    assert len(interpreter.cached) == MOST_CACHED
    interpreter.require()
    assert interpreter.asked == MOST_CACHED + 2


def test_require_says_what_to_do(tmp_path: Path) -> None:
    absent = write_interpreter(tmp_path / "a", [f"echo '{MARK}{{\"installed\": false}}'"])
    with pytest.raises(EnvironmentNotReadyError) as caught:
        require_horovod(absent)
    assert caught.value.hint.split("   ")[0] == "hvdprof install-horovod"
    assert "hvdprof bench --engine ddp" in caught.value.hint

    broken = write_interpreter(tmp_path / "b", ["echo 'ImportError: libmpi.so.40' >&2", "exit 1"])
    with pytest.raises(EnvironmentNotReadyError, match=r"libmpi\.so\.40") as caught:
        require_horovod(broken)
    assert caught.value.hint == "hvdprof install-horovod --force"


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentNotReadyError, match="could not be started"):
        require_horovod(str(tmp_path / "no-python"))


@pytest.mark.horovod
def test_the_real_one_is_described_and_not_imported_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # In a clone of Horovod's source, where its examples are, that is not the one that is meant.
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod" / "__init__.py").write_text("raise ImportError('of the clone')")
    monkeypatch.chdir(tmp_path)
    # Another test may have imported it into this process.
    for name in [name for name in sys.modules if name.partition(".")[0] == "horovod"]:
        monkeypatch.delitem(sys.modules, name)
    build = require_horovod(sys.executable)
    assert build.version == "0.28.1"
    assert build.gloo
    assert "horovod" not in sys.modules
    assert horovod_build.ask_horovod.cache_info().currsize == 1
    libraries = [Path(file).name for file in build.files if ".so" in file]
    assert any(name.startswith("mpi_lib_v2.") for name in libraries)
    assert any(name.startswith("libtorch") for name in libraries)
    assert all(Path(file).exists() for file in build.files if ".so" in file)
