"""torchrun for scripts that import torch.distributed and not Horovod."""

from pathlib import Path

import pytest

from hvdprof.errors import UsageError
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.launch.run.script_launcher import (
    check_launcher,
    is_launcher_by_imports,
    launcher_name,
    started_by_torchrun,
)

DDP = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"


def options(script: Path, **values: object) -> RunOptions:
    return RunOptions(command=("python", "-u", str(script)), np=2, **values)


def written(folder: Path, **texts: str) -> Path:
    """Files of a folder; the script is ``train.py``."""
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "train.py"


@pytest.mark.parametrize(
    "text",
    [
        DDP,
        "from torch import distributed, nn\n",
        "from torch.distributed import init_process_group\n",
        "def main():\n    import torch.distributed.fsdp\n",
    ],
)
def test_a_script_of_torch_distributed_gets_torchrun(tmp_path: Path, text: str) -> None:
    asked = options(written(tmp_path, train=text))
    started, further = started_by_torchrun(asked)
    assert (started.launcher, started.np, further) == ("torchrun", 2, ())
    assert started.command == asked.command
    assert launcher_name(asked) == "torchrun"


@pytest.mark.parametrize(
    "text",
    [
        "import horovod.torch as hvd\nimport torch.distributed\n",
        "import torch\nfrom torch.utils.data.distributed import DistributedSampler\n",
        f"{DDP}rank = os.environ['OMPI_COMM_WORLD_RANK']\n",
        f"{DDP}rank = os.environ['SLURM_PROCID']\n",
        "import torch.distributed as\n",
        "",
    ],
)
def test_others_are_left_to_the_launchers_of_horovod(tmp_path: Path, text: str) -> None:
    assert launcher_name(options(written(tmp_path, train=text))) == "auto"


def test_modules_beside_the_script_count(tmp_path: Path) -> None:
    script = written(tmp_path, train="import lib.engine\n", lib__engine="from lib import one\n")
    assert launcher_name(options(script)) == "auto"
    written(tmp_path, lib__one=DDP)
    assert launcher_name(options(script)) == "torchrun"
    # Modules that import each other are read once.
    written(tmp_path, lib__one=f"import lib.engine\nimport horovod\n{DDP}")
    assert launcher_name(options(script)) == "auto"


def test_a_module_is_found_below_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, pkg__train=DDP)
    monkeypatch.chdir(tmp_path)
    assert is_launcher_by_imports(RunOptions(command=("python", "-m", "pkg.train"), np=2))
    assert not is_launcher_by_imports(RunOptions(command=("python", "-m", "pkg.other"), np=2))


@pytest.mark.parametrize(
    "given",
    [{"launcher": "mpirun"}, {"controller": "gloo"}, {"host_discovery_script": "./hosts.sh"}],
)
def test_what_is_asked_for_goes_before_the_imports(tmp_path: Path, given: dict[str, str]) -> None:
    asked = options(written(tmp_path, train=DDP), **given)
    assert started_by_torchrun(asked) == (asked, ())


def test_a_file_that_cannot_be_read_or_is_no_text_decides_nothing(tmp_path: Path) -> None:
    assert launcher_name(options(tmp_path / "missing.py")) == "auto"
    script = tmp_path / "train.py"
    script.write_bytes(b"\xff\xfe\x00import torch.distributed")
    assert launcher_name(options(script)) == "auto"
    assert not is_launcher_by_imports(RunOptions(np=2))


@pytest.mark.parametrize(
    ("values", "says"),
    [({"hosts": "h1:2"}, "on this host alone"), ({"controller": "gloo"}, "is Horovod's")],
)
def test_workers_of_tensorflow_take_neither_hosts_nor_a_controller(
    tmp_path: Path, values: dict[str, str], says: str
) -> None:
    script = written(tmp_path, train="")
    check_launcher(options(script, launcher="tf"))
    with pytest.raises(UsageError, match=says):
        check_launcher(options(script, launcher="tf", **values))
