"""What hvdprof makes of each recorded run, as text files that a change of the texts shows up in.

    python -m tests.builders.golden_texts [NAME...]     write them anew; then read the difference

Terminal and Markdown are kept as they are; of an HTML report the markup, each script and style as
a digest; of the tables in JSON a digest each, which says which of them changed.
"""

import base64
import contextlib
import hashlib
import io
import json
import re
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hvdprof.api import analyze_run, load_run
from hvdprof.model.run import RunAnalysis
from hvdprof.report.formats import reporter_for
from tests.builders.places import ROOT
from tests.builders.recorded_runs import RECORDED, unpacked

GOLDEN = ROOT / "tests" / "recorded_runs" / "golden"
_NOT_MARKUP = re.compile(r"(<(script|style)\b[^>]*>)(.*?)(</\2>)", re.DOTALL)
_PACKED = re.compile(r'<script type="text/plain" id="packed-figures">([^<]*)</script>')
_PACKED_SIZE = re.compile(r"subarray\(0, \d+\)")
_FRACTION = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?")
_BYTES_OF_NUMBERS = re.compile(r'"bdata":"[^"]*"')
_DRAWN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def golden_texts(name: str, folder: Path) -> dict[str, str]:
    """By file name: what is made of a recorded run, unpacked into ``folder`` and analysed once."""
    unpacked(name, folder)
    with contextlib.chdir(folder):
        analysis = analyze_run(load_run(Path(name)))
        texts = {kind: _rendered(kind, analysis) for kind in ("terminal", "json", "md", "html")}
    return {
        "terminal.txt": texts["terminal"],
        "report.md": texts["md"],
        "report.html.txt": _NOT_MARKUP.sub(
            _digested, _DRAWN_ID.sub("ID", _with_scripts(texts["html"]))
        ),
        "json.txt": "".join(f"{line}\n" for line in _digests(json.loads(texts["json"]))),
    }


def _rendered(kind: str, analysis: RunAnalysis) -> str:
    stream = io.StringIO()
    reporter_for(kind if kind in {"terminal", "json"} else f"report.{kind}").render(
        analysis, stream
    )
    return stream.getvalue()


def _with_scripts(html: str) -> str:
    """A report with a script for each figure in place of all as one compressed text."""

    def unpacked_scripts(found: "re.Match[str]") -> str:
        packed = base64.b85decode(found[1].replace(",", "<"))
        scripts = zlib.decompressobj(wbits=31).decompress(packed).decode().split("\n;\n")
        return "\n".join(f"<script>{script}</script>" for script in scripts)

    # How small it becomes is the compressor's.
    return _PACKED.sub(unpacked_scripts, _PACKED_SIZE.sub("subarray(0, LENGTH)", html))


def _rounded(text: str) -> str:
    # The last bits of a sum depend on the processor; arrays of numbers are written as bytes.
    return _FRACTION.sub(lambda found: f"{float(found[0]):.6g}", _BYTES_OF_NUMBERS.sub("", text))


def _digest(text: str) -> str:
    return hashlib.sha256(_rounded(text).encode()).hexdigest()[:16]


def _digested(found: "re.Match[str]") -> str:
    # The library draws, it says nothing; a new version of it is no change of ours.
    is_library = len(found[3]) > 900_000
    return f"{found[1]}{'plotly.js' if is_library else _digest(found[3])}{found[4]}"


def _digests(values: dict[str, Any], prefix: str = "") -> list[str]:
    """A line for each value; those that are mappings are entered once."""
    lines = []
    for key, value in values.items():
        if isinstance(value, dict) and not prefix:
            lines += _digests(value, f"{key}.")
            continue
        text = _rounded(json.dumps(value, sort_keys=True))
        shown = text if len(text) < 80 else f"{len(text)} characters, {_digest(text)}"
        lines.append(f"{prefix}{key}: {shown}")
    return lines


def main() -> None:
    """Write the texts of the runs of the command line, or of all."""
    for name in sys.argv[1:] or RECORDED:
        with tempfile.TemporaryDirectory() as place:
            texts = golden_texts(name, Path(place))
        (GOLDEN / name).mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (GOLDEN / name / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
