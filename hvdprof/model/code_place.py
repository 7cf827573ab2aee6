"""How a line of code is named in texts.

Tested in ``tests/report/sections/test_code_lines.py``.
"""

from hvdprof.model.frame_row import FrameRow, is_missing


def code_place(file: str, line: int, function: str) -> str:
    """``transforms.py:41 (Dataset.__getitem__)``; the function alone where the file is unknown."""
    if not file:
        return function
    name = file_name(file)
    return f"{name}:{line} ({function})" if function else f"{name}:{line}"


def file_name(file: str) -> str:
    """The last part of a path, of any system; the name of a cell as it is."""
    return file.replace("\\", "/").rpartition("/")[2]


def code_of_finding(row: FrameRow) -> str:
    """The line that a row of FINDINGS names; empty without one."""
    line = 0 if is_missing(row["code_line"]) else int(row["code_line"])
    return code_place(str(row["code_file"]), line, str(row["code_function"]))


def place_of(row: FrameRow) -> str:
    """The line of a row of LINES or LINE_CAUSES; of an exact call with its name."""
    function = str(row["function"]) or str(row["leaf"])
    return code_place(str(row["file"]), int(row["line"]), function)
