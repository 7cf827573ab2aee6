"""The dashboard as a process of its own, and a browser that looks at it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_TICKS = os.sysconf("SC_CLK_TCK")
_ADDRESS = re.compile(r"http://\S+")


class Served:
    """A running dashboard: its address, and what its process has used."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self.address = address
        self._process = process

    @property
    def cpu_s(self) -> float:
        """Processor time so far, that of its start included."""
        fields = self._read("stat").rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def peak_gb(self) -> float:
        """Largest resident memory so far, pages of mapped files included."""
        return self._kilobytes("VmHWM") / 1e6

    @property
    def now_gb(self) -> float:
        """Resident memory that is its own: without pages of files."""
        return self._kilobytes("RssAnon") / 1e6

    def _kilobytes(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+)", self._read("status"))
        return int(found[1]) if found else 0

    def _read(self, name: str) -> str:
        return Path(f"/proc/{self._process.pid}/{name}").read_text(encoding="utf-8")


@contextmanager
def served(path: Path, cache: Path) -> Iterator[Served]:
    """The dashboard over a run or a file, as ``hvdprof dashboard`` starts it.

    Args:
        path: A run directory or a standalone file.
        cache: The user's cache folder.
    """
    command = [sys.executable, "-m", "hvdprof", "dashboard", str(path), "--no-open", "--no-token"]
    environment = os.environ | {"HVDPROF_CACHE_DIR": str(cache)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            found = _ADDRESS.search(process.stdout.readline())
            if found is None:
                raise RuntimeError(f"{path}: the dashboard did not start")
            yield Served(process, found[0].rstrip("/"))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


@contextmanager
def chromium() -> Iterator["Browser"]:
    """A headless Chromium.

    Raises:
        FileNotFoundError: There is none on this machine.
    """
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium") or shutil.which("google-chrome")
    if executable is None:
        raise FileNotFoundError("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@contextmanager
def fresh_copy(path: Path) -> Iterator[Path]:
    """The same run or file in a new folder, beside which no cache lies."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        copy = Path(folder) / path.name
        if path.is_dir():
            shutil.copytree(path, copy, ignore=shutil.ignore_patterns(".hvdprof-cache"))
        else:
            copy.hardlink_to(path)
        yield copy
