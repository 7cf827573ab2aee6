"""What Python does at its start below `hvdprof run`, in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hvdprof.collect.auto.startup import FOLDER
from hvdprof.collect.auto.startup.hvdprof_import_hook import NOTICE
from hvdprof.rundir.launch_format import AUTORECORD, AutoSettings
from hvdprof.rundir.layout import PassPaths
from tests.builders.places import ROOT

SETTINGS = AutoSettings(
    num_warmup_steps=1, num_steps=None, batch_size=None, timeline="", num_timeline_steps=5
)


def python(program: str, *folders: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join(map(str, (FOLDER, *folders, ROOT)))
    variables = {**os.environ, "PYTHONPATH": path, AUTORECORD: SETTINGS.to_text()}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**variables, **environment},
        cwd=os.sep,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_sitecustomize_of_the_users_own_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.OWN = 'ran'\n")

    ended = python("print(OWN); import sitecustomize; print(sitecustomize.__file__)", tmp_path)

    assert ended.stdout.split() == ["ran", str(tmp_path / "sitecustomize.py")]
    assert ended.stderr == ""


def test_a_process_without_horovod_imports_nothing_heavy():
    ended = python("import sys; print(*[n for n in ('torch', 'pandas') if n in sys.modules])")

    assert ended.stdout.split() == []
    assert ended.stderr == ""


def test_settings_that_cannot_be_read_are_reported_and_harm_nothing(tmp_path):
    package = tmp_path / "horovod"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "torch.py").write_text("def DistributedOptimizer(one): return one\n")

    ended = python(
        "import horovod.torch as hvd; print(hvd.DistributedOptimizer(7))",
        tmp_path,
        **{AUTORECORD: "{"},
    )

    assert ended.stdout.split() == ["7"]
    assert "nothing is recorded" in ended.stderr


def test_the_module_is_hooked_once_it_is_imported(tmp_path):
    package = tmp_path / "horovod"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "torch.py").write_text(
        "def DistributedOptimizer(one): return one\ndef shutdown(): pass\n"
    )

    script = (
        "from horovod.torch import DistributedOptimizer; print(DistributedOptimizer.__wrapped__)"
    )
    ended = python(script, tmp_path)

    assert ended.stdout.startswith("<function DistributedOptimizer")
    assert ended.stderr == ""


def test_a_horovod_for_tensorflow_is_hooked_too(tmp_path):
    package = tmp_path / "horovod" / "tensorflow"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("import tensorflow\n")
    (package / "keras.py").write_text("from horovod.tensorflow import *\n")
    (tmp_path / "tensorflow.py").write_text("def function(python): return python\n")

    ended = python("import horovod.tensorflow.keras; print('imported')", tmp_path)

    # This one has nothing to hook, which is reported once.
    assert ended.stdout.split() == ["imported"]
    assert ended.stderr.count("nothing is recorded: AttributeError") == 1


@pytest.mark.parametrize("has_sitecustomize", [False, True])
def test_a_process_without_horovod_feels_next_to_nothing(tmp_path, has_sitecustomize):
    script = "import sys; print(*sys.modules)"
    if has_sitecustomize:
        # As Debian's Python has one of its own.
        (tmp_path / "sitecustomize.py").touch()
    plain = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )

    added = set(python(script, tmp_path).stdout.split()) - set(plain.stdout.split())

    # A module that is imported here hides a file of that name beside the script.
    assert added <= {
        *("sitecustomize", "hvdprof_import_hook", "warnings"),
        *("importlib", "importlib._bootstrap", "importlib._bootstrap_external"),
        "importlib.machinery",
    }


def fake_torch(folder):
    package = folder / "torch" / "distributed"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("import torch.distributed\n")
    (package / "__init__.py").write_text("from torch.distributed.distributed_c10d import *\n")
    (package / "distributed_c10d.py").write_text(
        "def init_process_group(backend): return backend\ndef other(): pass\n"
    )


def test_torch_alone_loads_no_recorder(tmp_path):
    fake_torch(tmp_path)

    ended = python(
        "import sys, torch.distributed as d; print('hvdprof' in sys.modules, d.other.__name__)",
        tmp_path,
    )

    assert ended.stdout.split() == ["False", "other"]
    assert ended.stderr == ""


def test_the_recorder_comes_with_the_first_process_group(tmp_path):
    fake_torch(tmp_path)

    ended = python(
        "import sys; from torch.distributed import init_process_group as make\n"
        "print(make('gloo'), make.__name__, make.__wrapped__.__name__, 'hvdprof' in sys.modules)\n"
        "make('gloo')",
        tmp_path,
    )

    # This one has nothing to hook, which is reported once and harms nothing.
    assert ended.stdout.split() == ["gloo", "init_process_group", "init_process_group", "True"]
    assert ended.stderr.count("nothing is recorded: KeyError") == 1


SGD = (
    "import torch; one = torch.zeros(1, requires_grad=True); sgd = torch.optim.SGD([one]); "
    "one.sum().backward(); "
)


@pytest.mark.torch
def test_a_training_that_cannot_be_recorded_says_so_at_its_first_update(tmp_path):
    ended = python(f"{SGD}sgd.step(); sgd.step(); print('on')", HVDPROF_RECORDER_DIR=str(tmp_path))

    assert ended.stdout.split() == ["on"]
    assert ended.stderr == f"hvdprof recorder: {NOTICE}\n"
    assert PassPaths(tmp_path.parent).unrecorded.name in {one.name for one in tmp_path.iterdir()}


@pytest.mark.torch
def test_an_update_beside_a_process_group_says_nothing(tmp_path):
    make = (
        "torch.distributed.init_process_group('gloo', init_method='file://"
        f"{tmp_path}/store', rank=0, world_size=1); "
    )
    ended = python(f"{SGD}{make}sgd.step()", HVDPROF_RECORDER_DIR=str(tmp_path / "recorder"))

    assert "hvdprof" not in ended.stderr
    assert not (tmp_path / "recorder").exists()


def fake_horovod(folder, *, begin=""):
    package = folder / "horovod"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "torch.py").write_text(
        f"{begin}\ndef DistributedOptimizer(one): return one\ndef shutdown(): pass\n"
    )
    return package


@pytest.mark.parametrize("name", ["secrets", "statistics"])
def test_a_file_beside_the_script_is_not_hidden_by_a_module_of_the_library(tmp_path, name):
    fake_horovod(tmp_path)
    (tmp_path / f"{name}.py").write_text("TOKEN = 'own'\n")
    script = tmp_path / "train.py"
    script.write_text(f"import horovod.torch\nfrom {name} import TOKEN\nprint(TOKEN)\n")

    ended = python(
        f"import runpy, sys; sys.path.insert(0, {str(tmp_path)!r}); runpy.run_path({str(script)!r})"
    )

    assert (ended.stdout.split(), ended.stderr) == (["own"], "")


def test_a_recorder_that_cannot_be_imported_leaves_the_import_alone(tmp_path):
    fake_horovod(tmp_path)
    broken = tmp_path / "broken" / "hvdprof"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ValueError('half installed')\n")

    ended = python(
        "import horovod.torch as hvd; print(hvd.DistributedOptimizer(7))", broken.parent, tmp_path
    )

    assert ended.stdout.split() == ["7"]
    assert "nothing is recorded: ValueError: half installed" in ended.stderr
    assert f"is hvdprof installed for {sys.executable}?" in ended.stderr


def test_an_import_that_fails_fails_as_without_hvdprof_and_may_be_tried_again(tmp_path):
    package = fake_horovod(tmp_path, begin="import no_such_library")
    program = (
        "try:\n    import horovod.torch\n"
        "except ModuleNotFoundError as error:\n    print(error.name)\n"
        f"open({str(package / 'torch.py')!r}, 'w').write('def DistributedOptimizer(one): pass\\n"
        "def shutdown(): pass\\n')\n"
        "import importlib; importlib.invalidate_caches()\n"
        "import horovod.torch as hvd; print(hasattr(hvd.DistributedOptimizer, '__wrapped__'))"
    )

    ended = python(program, tmp_path)

    assert ended.stdout.split() == ["no_such_library", "True"]


def test_a_loader_that_cannot_be_hooked_loads_as_ever(tmp_path):
    fake_horovod(tmp_path)
    program = (
        "import sys, importlib.machinery as machinery\n"
        "class Sealed:\n"
        "    __slots__ = ()\n"
        "    def create_module(self, spec): return None\n"
        "    def exec_module(self, module): module.DistributedOptimizer = 7\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'horovod.torch':\n"
        "            return machinery.ModuleSpec(name, Sealed())\n"
        "sys.meta_path.insert(5, Finder())\n"
        "import horovod.torch as hvd; print(hvd.DistributedOptimizer)"
    )

    ended = python(program, tmp_path)

    assert ended.stdout.split() == ["7"]
    assert "nothing is recorded: AttributeError" in ended.stderr


def test_data_workers_start_unharmed_in_every_way(tmp_path):
    package = fake_horovod(tmp_path)
    with (package / "torch.py").open("a") as file:
        file.write("def allreduce(number): return number + 1\n")
    script = tmp_path / "train.py"
    script.write_text(
        "import multiprocessing\n"
        "from horovod.torch import allreduce\n"
        "if __name__ == '__main__':\n"
        "    for way in ('spawn', 'forkserver', 'fork'):\n"
        "        with multiprocessing.get_context(way).Pool(1) as pool:\n"
        "            print(way, *pool.map(allreduce, [1, 2]))\n"
    )
    program = f"import subprocess, sys; subprocess.run([sys.executable, {str(script)!r}])"

    ended = python(program)

    assert ended.stdout.splitlines() == ["spawn 2 3", "forkserver 2 3", "fork 2 3"]
    assert ended.stderr == ""
