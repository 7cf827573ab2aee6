"""The names that the API offers, and what importing it costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from hvdprof import api

SOURCE = Path(api.__file__)


def test_every_public_name_is_there() -> None:
    assert dir(api) == sorted(api.__all__)
    assert all(getattr(api, name) is not None for name in api.__all__)


def test_type_checkers_see_the_names_that_exist() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        (str(node.module).removeprefix("hvdprof.api."), alias.name)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {(module, name) for name, module in api._MODULE_OF.items()}
    assert {*api.__all__} < {*api._MODULE_OF}


def test_no_name_is_that_of_a_module() -> None:
    """Importing a module would replace the function of its name in the package."""
    assert not {path.stem for path in SOURCE.parent.glob("*.py")} & set(api._MODULE_OF)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'load_runs'"):
        api.load_runs()


def test_importing_it_imports_no_tables() -> None:
    code = (
        "import sys; import hvdprof.api; "
        "assert not {'pandas', 'numpy', 'torch', 'typer'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
