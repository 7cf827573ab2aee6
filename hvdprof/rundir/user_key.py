"""A key of this user, by which hvdprof recognises what it wrote for this user before.

It lies where programs keep their state (XDG base directories), readable by its owner alone.
"""

import contextlib
import hmac
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hvdprof.rundir.trusted_file import open_trusted, trusted_folder

_KEY_BYTES = 32


def seal(content: bytes) -> str:
    """What only this user's hvdprof can add to a content; empty where the key cannot be kept."""
    key = _key() or _new_key()
    return hmac.digest(key, content, "sha256").hex() if key else ""


def is_sealed(content: bytes, stated: str) -> bool:
    """Whether ``seal`` of this user gave that for the content."""
    key = _key()
    if not key:
        return False
    return hmac.compare_digest(hmac.digest(key, content, "sha256").hex().encode(), stated.encode())


def key_file(environment: Mapping[str, str] = os.environ) -> Path:
    """``XDG_STATE_HOME``/hvdprof/key, else ``~/.local/state/hvdprof/key``."""
    base = Path(environment.get("XDG_STATE_HOME", ""))
    # The XDG base directory specification: a relative path is invalid and is ignored.
    root = base if base.is_absolute() else Path("~/.local/state").expanduser()
    return root / "hvdprof" / "key"


def _key() -> bytes:
    """The key; empty where there is none that only this user can read."""
    try:
        with open_trusted(key_file()) as file:
            is_open = os.fstat(file.fileno()).st_mode & 0o077
            key = b"" if is_open else file.read(_KEY_BYTES + 1)
    except (OSError, RuntimeError):
        return b""
    return key if len(key) == _KEY_BYTES else b""


def _new_key() -> bytes:
    """A key that was made now, or by another process at the same time; empty without a place."""
    path = key_file()
    temporary = ""
    try:
        if not trusted_folder(path.parent):
            return b""
        # Its mode is 0600.
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(os.urandom(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    except (OSError, RuntimeError):
        # A home that cannot be written to, or none.
        return b""
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
    return _key()
