"""Print how the parts of ``make test`` went, and once more what failed in any of them.

python -m tests.parts NAME ...

The names are those of all parts: one that wrote nothing did not start.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.parts.plugin import FILE


def main() -> int:
    print("\n".join(summary(sys.argv[1:], read_lines(FILE))))
    return 0


def read_lines(file: Path) -> list[dict[str, Any]]:
    """What the parts wrote; nothing if none started. A killed part may leave half a line."""
    if not file.exists():
        return []
    *whole, _ = file.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in whole]


def summary(parts: list[str], lines: list[dict[str, Any]]) -> list[str]:
    """The failed tests with the ends of their errors, then a line per part."""
    printed = []
    for line in lines:
        if line["kind"] == "failed":
            phase = f", {line['phase']}" if line["phase"] else ""
            printed += ["", f"FAILED {line['test']} (part {line['part']}{phase})"]
            printed += [f"    {text}" for text in line["error"]]
    printed += ["", "Parts of make test:"]
    for part in parts:
        kinds = {line["kind"]: line for line in lines if line["part"] == part}
        printed.append(f"  {part:6} {_how_it_went(kinds)}")
    return printed


def _how_it_went(kinds: dict[str, dict[str, Any]]) -> str:
    if "begin" not in kinds:
        return "did not start: its own output, above, says why"
    if "end" not in kinds:
        return "did not end: it was killed, or pytest itself failed"
    end = kinds["end"]
    minutes, seconds = divmod(round(end["wall_s"]), 60)
    counts = ", ".join(f"{number} {name}" for name, number in sorted(end["counts"].items()))
    text = f"{minutes:3} min {seconds:2} s: {counts or 'no test'}"
    if end["exit_code"] and "failed" not in end["counts"]:
        text += f"; exit code {end['exit_code']} without a failed test: see its own output, above"
    return text


if __name__ == "__main__":
    sys.exit(main())
