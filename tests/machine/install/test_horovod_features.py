import json
import sys
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.machine.install import horovod_features as horovod_build
from hvdprof.machine.install.horovod_features import (
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
def _ask_anew() -> None:
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
