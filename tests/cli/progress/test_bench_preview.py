import io
from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.cli.progress.bench_preview import announce
from hvdprof.rundir.manifest import Manifest
from tests.builders.run_directory import PassSpec, write_run


@pytest.mark.parametrize(
    ("script", "is_told"),
    [
        (None, False),
        ({"command": ["python", "train.py", "--epochs", "3"]}, False),
        ({"command": ["python", "train.py", "--api-key", "abc"]}, True),
        ({"command": ("python", "train.py", "--data=https://me:abc@host/x")}, True),
    ],
)
def test_a_secret_in_the_command_of_a_script_is_told_and_not_repeated(tmp_path, script, is_told):
    manifest = Manifest.read(write_run(tmp_path, [PassSpec()]))
    stream = io.StringIO()

    announce(replace(manifest, settings={"script": script}), Path("runs/mine"), stream)

    told = stream.getvalue()
    assert ("looks like a secret" in told) == is_told
    assert ("runs/mine/manifest.json" in told) == is_told
    assert "abc" not in told
