r"""Names of files as tables and messages have them: printable, and as the user knows the file.

A name on Linux is bytes. What is not UTF-8 in it, and control characters, are shown as escapes such
as ``\xe9``. Files that were unpacked, or copied from a stream, have the name of that archive or
stream.
"""

import os
from pathlib import Path

from hvdprof.plain_text import printable

_stand_ins: dict[str, str] = {}


def shown_name(path: Path) -> str:
    """The name of a file for tables and messages; always text that UTF-8 can encode."""
    name = str(path)
    for folder, stands_for in _stand_ins.items():
        if name == folder or name.startswith(folder + os.sep):
            name = stands_for + name[len(folder) :]
            break
    return printable(name)


def show_as(path: Path, name: str) -> None:
    """Show a path, and all paths below it, as another name from now on."""
    _stand_ins[str(path)] = name


def show_as_they_are(folder: Path) -> None:
    """Show the paths below a folder that is removed by their own names again."""
    for name in [name for name in _stand_ins if Path(name).is_relative_to(folder)]:
        del _stand_ins[name]
