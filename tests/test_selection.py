"""Files of which `--fast` or `-m` selects no test are not imported: `tests/conftest.py`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.builders.inner_pytest import NO_OTHERS, PLUGINS
from tests.conftest import FAST, may_select

WHOLE = "import pytest\n\npytestmark = [pytest.mark.torch, pytest.mark.timeout(9)]\n"
SINGLE = "import pytest\n\n@pytest.mark.slow\ndef test_long(): ...\n\ndef test_short(): ...\n"
PARAMETER = 'import pytest\n\nCASES = [1, pytest.param(2, marks=pytest.mark.gpu, id="card")]\n'
PLAIN = '"""A slow loop on a GPU: torch, horovod."""\n\ndef test_short(): ...\n'
SHORT_NAME = "from pytest import mark\n\npytestmark = mark.torch\n"


@pytest.mark.parametrize(
    ("source", "expression", "selects"),
    [
        (WHOLE, "torch", True),
        (WHOLE, "not torch", False),
        (WHOLE, "slow", False),
        (WHOLE, "slow or torch", True),
        (WHOLE, "torch and (slow or gpu)", False),
        (WHOLE, FAST, False),
        (SINGLE, "slow", True),
        (SINGLE, "not slow", True),
        (SINGLE, "slow and torch", False),
        (SINGLE, "not (slow or torch)", True),
        (SINGLE, FAST, True),
        (PARAMETER, "gpu", True),
        (PARAMETER, "not gpu", True),
        (PLAIN, "slow or torch or horovod", False),
        (PLAIN, FAST, True),
        (SHORT_NAME, "torch", True),
        (SHORT_NAME, "slow", False),
    ],
)
def test_a_file_is_omitted_when_its_text_excludes_every_test(
    source: str, expression: str, selects: bool
) -> None:
    assert may_select(expression, source) is selects


@pytest.mark.parametrize(
    "expression",
    [
        "skipif",
        "hypothesis and not skipif",
        "timeout(9)",
        "slow or a-b.c[1]",
        "True",
        "slow and",
        "slow torch",
        "(slow",
        "",
        "\0",
    ],
)
def test_what_the_text_does_not_decide_is_collected(expression: str) -> None:
    assert may_select(expression, PLAIN)


def _pytest(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Pytest in a folder of test files with the conftest of these tests."""
    shutil.copy(conftest.__file__, folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGINS, *options],
        cwd=folder,
        env=os.environ | NO_OTHERS,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
def test_a_file_without_a_selected_test_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "test_single.py").write_text(SINGLE)
    (tmp_path / "test_light.py").write_text(f"{PLAIN}raise ImportError\n")
    (tmp_path / "test_whole.py").write_text(f"{WHOLE}raise ImportError\n")
    done = _pytest(tmp_path, "-m", "slow and not torch")
    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 deselected" in done.stdout
    # A file that is named is collected.
    named = _pytest(tmp_path, "-m", "slow", "test_light.py")
    assert named.returncode == pytest.ExitCode.INTERRUPTED
    assert "ERROR collecting test_light.py" in named.stdout


@pytest.mark.slow
@pytest.mark.parametrize("expression", ["slow and", "slow and (", "slow torch"])
def test_a_malformed_expression_gets_the_error_of_pytest(tmp_path: Path, expression: str) -> None:
    (tmp_path / "test_light.py").write_text(PLAIN)
    done = _pytest(tmp_path, "-m", expression)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"Wrong expression passed to '-m': {expression}:" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "import pytest\n\nname = 'slow'\n\n@getattr(pytest.mark, name)\ndef test_long(): ...\n",
        "import pytest\n\npytestmark = pytest.mark.slow if 0 else pytest.mark.torch\n\n"
        "def test_long(): ...\n",
    ],
)
def test_a_marker_that_the_text_does_not_show_is_refused(tmp_path: Path, source: str) -> None:
    (tmp_path / "test_hidden.py").write_text(source)
    done = _pytest(tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: test_hidden.py::test_long has the markers" in done.stderr
    assert "Write the markers of a test as `pytest.mark.NAME` in its own file." in done.stderr


@pytest.mark.slow
def test_a_second_attempt_is_listed_with_the_error_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "test_late.py").write_text(
        "import pytest\n\nattempts = []\n\n"
        "@pytest.mark.slow\n@pytest.mark.flaky(reruns=2)\ndef test_port():\n"
        "    attempts.append(1)\n"
        "    if len(attempts) < 3:\n"
        "        raise OSError(f'attempt {len(attempts)}:\\nport in use')\n"
    )
    done = _pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 tried again" in done.stdout
    line = "    3 attempts: test_late.py::test_port: OSError: attempt 1:\n"
    assert line in done.stdout
