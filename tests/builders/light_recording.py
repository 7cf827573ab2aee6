"""A synthetic run directory turned into a light recording, by the recorder's own writer."""

import json
from pathlib import Path
from typing import Any

from hvdprof.collect.steps.header import LineWriter
from hvdprof.collect.steps.window_writer import WindowWriter


def made_light(folder: Path) -> Path:
    """Replace every recorder file of a run directory by that of a light recording; the folder."""
    for path in sorted(folder.glob("passes/*/recorder/rank-*.jsonl")):
        lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
        path.unlink()
        write_light(path, lines)
    return folder


def write_light(path: Path, lines: list[Any]) -> list[str]:
    """Write the lines of a full recording as a light one; what it reported."""
    file, reported = LineWriter(path), list[str]()
    windows = WindowWriter(file, reported.append)
    for line in lines:
        if line["kind"] == "step":
            windows.add(line | {"ready": []})
            continue
        windows.flush()
        if line["kind"] == "segment":
            file.write(_with_totals(line))
        else:
            file.write(line)
    windows.flush()
    file.close()
    return reported


def _with_totals(line: Any) -> Any:
    tensors = line["tensors"]
    return line | {
        "tensors": [],
        "totals": {
            "num_tensors": len(tensors),
            "size_bytes": sum(tensor["size_bytes"] for tensor in tensors),
            "sent_bytes": sum(tensor["sent_bytes"] for tensor in tensors),
        },
    }
