r"""Which names of files and hosts can be used, and how files are named to the user.

A manifest is a file of a stranger: a pass named ``../../x`` would be read and written elsewhere,
and a host named ``-oProxyCommand=x`` would be an option of ssh.

A name on Linux is bytes. What is not UTF-8 in it, and control characters, are shown as escapes such
as ``\xe9``. Files that were unpacked, or copied from a stream, have the name of that archive or
stream.
"""

import os
import re
from pathlib import Path, PurePosixPath

from hvdprof.plain_text import printable

_LONGEST_NAME_BYTES = 255
_LONGEST_HOST_NAME = 253
_NOT_PLAIN = re.compile(r"[/\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028-\u202e\u2066-\u2069]")
_HOST_NAME = re.compile(r"(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9_:][\w.:-]*", re.ASCII)
_stand_ins: dict[str, str] = {}


def check_plain(name: str, what: str) -> None:
    """Check that a name can be that of one file or folder, and no place elsewhere.

    Raises:
        ValueError: It is empty, too long, ``.`` or ``..``, or has a slash or a control character.
    """
    size = len(name.encode("utf-8", "surrogatepass"))
    if name in ("", ".", "..") or size > _LONGEST_NAME_BYTES or _NOT_PLAIN.search(name):
        raise ValueError(f"{what} {_shown(name)} is no plain name")


def check_relative(path: str, what: str) -> None:
    """Check that a path consists of plain names, so that it stays below the folder it is joined to.

    Raises:
        ValueError: It is absolute, or a part of it is no plain name.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/"):
        raise ValueError(f"{what} {_shown(path)} is no relative path")
    for part in parts:
        check_plain(part, what)


def is_host_name(name: str) -> bool:
    """Whether a text can be a host on a command line: a name, an address, or ``user@name``."""
    return len(name) <= _LONGEST_HOST_NAME and _HOST_NAME.fullmatch(name) is not None


def _shown(name: str) -> str:
    return ascii(name if len(name) <= 60 else f"{name[:60]}...")


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
