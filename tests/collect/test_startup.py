"""What Python does at its start below `hvdprof run`, in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import hvdprof
from hvdprof.collect.auto_settings import AUTORECORD, AutoSettings
from hvdprof.collect.startup import FOLDER

ROOT = Path(hvdprof.__file__).parents[1]
SETTINGS = AutoSettings(
    num_warmup_steps=1, num_steps=None, batch_size=None, timeline="", num_timeline_steps=5
)


def python(program: str, *folders: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join(map(str, (FOLDER, *folders, ROOT)))
    variables = {**os.environ, "PYTHONPATH": path, AUTORECORD: SETTINGS.to_text()}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**variables, **environment},
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


def test_settings_that_cannot_be_read_are_told_and_harm_nothing(tmp_path):
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


def test_the_module_is_bracketed_once_it_is_imported(tmp_path):
    package = tmp_path / "horovod"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "torch.py").write_text(
        "def DistributedOptimizer(one): return one\ndef shutdown(): pass\n"
    )

    told = "from horovod.torch import DistributedOptimizer; print(DistributedOptimizer.__wrapped__)"
    ended = python(told, tmp_path)

    assert ended.stdout.startswith("<function DistributedOptimizer")
    assert ended.stderr == ""


def test_a_horovod_for_tensorflow_is_bracketed_too(tmp_path):
    package = tmp_path / "horovod" / "tensorflow"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("import tensorflow\n")
    (package / "keras.py").write_text("from horovod.tensorflow import *\n")
    (tmp_path / "tensorflow.py").write_text("def function(python): return python\n")

    ended = python("import horovod.tensorflow.keras; print('imported')", tmp_path)

    # This one has nothing that could be bracketed, which is told once.
    assert ended.stdout.split() == ["imported"]
    assert ended.stderr.count("nothing is recorded: AttributeError") == 1
