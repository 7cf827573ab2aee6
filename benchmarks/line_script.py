"""Writes the files of a script that ``line_draw.py`` has drawn, its bug on a known line.

A script without a bug is the same text, in which no rank loses time.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.line_draw import DDP, HOROVOD, Script

WAY_LINES: Mapping[str, tuple[str, ...]] = {
    "a sleep": ("time.sleep({lost})  # bug",),
    "NumPy": ("while time.perf_counter() < end:", "    np.linalg.svd(MATRIX)  # bug"),
    "a package": ("codec.decode(b'', {lost})  # bug",),
    "a call in C that holds the lock": (
        "while time.perf_counter() < end:",
        "    sum(range(200_000))  # bug",
    ),
    "a call in C": ("while time.perf_counter() < end:", "    zlib.compress(BLOB, 9)  # bug"),
    "a loop in Python": ("while time.perf_counter() < end: count += 1  # bug",),
}
"""The lines that lose the time in each way."""

HEAD = """import time
import zlib

import codec
import numpy as np
import torch
from torch import nn

MATRIX = np.random.default_rng(0).normal(size=(90, 90))
BLOB = bytes(range(256)) * 400
"""

LOST = '''"""What a rank loses, s."""
import os

RANK = int(next(os.environ[name] for name in ("RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK")
                if name in os.environ))
step = 0


def seconds():
    """What this rank loses now."""
    if RANK != {rank} or step < {first} or (step + 1) % {every}:
        return 0.0
    return {seconds:.6f}
'''

CODEC = '''"""Stands for a package that is installed."""
import time


def _rows(data, seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        data = bytes(len(data))
    return data


def decode(data, seconds):
    """Take the time."""
    return _rows(data, seconds) if seconds else data
'''

FILLERS = (
    "# What follows is the same on every rank.",
    "scale = sum(n % 3 for n in range(50)) / 50",
    'names = {f"part {n}": n for n in range(20)}',
    "limits = [min(n, 7) for n in range(30)]",
    "",
)


@dataclass(frozen=True, slots=True)
class Written:
    """What starts a script behind ``python``, its bug's line, and those where all ranks spend time.

    A line is the name of its file and its number.
    """

    start: tuple[str, ...]
    bug: str
    usual: frozenset[str]


def write(script: Script, folder: Path) -> Written:
    """Write it.

    Args:
        script: The script.
        folder: Its folder, to be put on PYTHONPATH with ``site-packages`` below it.
    """
    rng = random.Random(f"text {script.seed}")
    words = ["stream", "records", "blocks", "layers", "kernels", "mixing", "track", "journal"]
    rng.shuffle(words)
    names = dict(zip(("data", "net", "ops", "logs", "sgd"), words, strict=False))
    place = folder / "job" if script.is_module else folder
    start = "from job import " if script.is_module else "import "
    texts = _texts(script, names, rng)
    packages = folder / "site-packages"
    for one in (place, packages):
        one.mkdir(parents=True, exist_ok=True)
    seconds = script.ms * script.every / 1e3
    seconds /= script.batch if script.site in ("getitem", "worker") else 1
    lost = LOST.format(rank=script.rank, first=script.first, every=script.every, seconds=seconds)
    (place / "lost.py").write_text(lost, encoding="utf-8")
    (packages / "codec.py").write_text(CODEC, encoding="utf-8")
    marked: dict[str, set[str]] = {"# bug": set(), "# usual": set()}
    for name, lines in texts.items():
        imports = [f"{start}{one}" for one in ("lost", *words[:5]) if one != name]
        # Modules of one script import one another only as far as they use one another.
        used = [line for line in imports if f"{line.split()[-1]}." in "\n".join(lines)]
        whole = "\n".join([HEAD, *used, "", *lines, ""]).splitlines()
        for number, line in enumerate(whole, 1):
            for mark, found in marked.items():
                found |= {f"{name}.py:{number}"} if line.endswith(mark) else set()
        (place / f"{name}.py").write_text("\n".join(whole) + "\n", encoding="utf-8")
    (bug,) = marked["# bug"]
    begin = ("-m", "job.train") if script.is_module else (str(place / "train.py"),)
    return Written(begin, bug, frozenset(marked["# usual"]))


def _texts(script: Script, names: Mapping[str, str], rng: random.Random) -> dict[str, list[str]]:
    """The lines of each file by its name."""

    def at(site: str, *, depth: int) -> list[str]:
        """Fillers, and the bug where it is there."""
        lines = rng.sample(FILLERS, rng.randint(0, 3))
        if script.site.removeprefix("worker-").replace("worker", "getitem") == site:
            lines += ["end, count = time.perf_counter() + lost.seconds(), 0"]
            lines += [line.format(lost="lost.seconds()") for line in WAY_LINES[script.way]]
        return [f"{'    ' * depth}{line}" if line else "" for line in lines]

    def usual(part: str, share: float = 1.0) -> str:
        return f"time.sleep({script.parts_ms[part] * share / 1e3:.6f})  # usual"

    per_batch = 1 / script.batch
    data = [
        "class Samples(torch.utils.data.Dataset):",
        "    def __init__(self, number):",
        "        self.number = number",
        "    def __len__(self):",
        "        return self.number",
        "    def __getitem__(self, index):",
        f"        {usual('data', per_batch)}",
        *at("getitem", depth=2),
        "        return torch.full((64,), float(index % 7))",
        "def collate(samples):",
        *at("collate", depth=1),
        "    return torch.stack(samples)",
    ]
    ops = ["def activated(hidden):", *at("ops", depth=1), "    return torch.relu(hidden)"]
    net = [
        "class Passed(torch.autograd.Function):",
        "    @staticmethod",
        "    def forward(ctx, inputs):",
        "        return inputs.view_as(inputs)",
        "    @staticmethod",
        "    def backward(ctx, gradient):",
        f"        {usual('backward')}",
        *at("autograd", depth=2),
        "        return gradient",
        "class Net(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.first, self.last = nn.Linear(64, 256), nn.Linear(256, 10)",
        "    def forward(self, inputs):",
        f"        {usual('forward')}",
        *at("forward", depth=2),
        f"        hidden = {names['ops']}.activated(self.first(inputs))",
        "        return self.last(Passed.apply(hidden))",
    ]
    sgd = [
        "class Update(torch.optim.SGD):",
        "    def step(self, closure=None):",
        f"        {usual('update')}",
        *at("update", depth=2),
        "        return super().step(closure)",
    ]
    logs = ["def report(step, loss):", f"    {usual('report')}", *at("report", depth=1)]
    return {
        names["data"]: data,
        names["net"]: net,
        names["ops"]: ops,
        names["sgd"]: sgd,
        names["logs"]: [*logs, "    return step, float(loss)"],
        "train": _loop(script, names, at("hook", depth=1)),
    }


ENGINE_LINES = {
    DDP: [
        "import torch.distributed as dist",
        "dist.init_process_group('gloo')",
        "net = nn.parallel.DistributedDataParallel({net}.Net())",
        "optimizer = {sgd}.Update(net.parameters(), lr=0.01)",
    ],
    HOROVOD: [
        "import horovod.torch as hvd",
        "hvd.init()",
        "net = {net}.Net()",
        "hvd.broadcast_parameters(net.state_dict(), root_rank=0)",
        "optimizer = {sgd}.Update(net.parameters(), lr=0.01)",
        "optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())",
    ],
}


def _loop(script: Script, names: Mapping[str, str], hook: Sequence[str]) -> list[str]:
    """The file that is started: a function, or a class with a method for a step."""
    engine = [f"    {line.format(**names)}" for line in ENGINE_LINES[script.engine]]
    step = [
        "optimizer.zero_grad()",
        "output = net(batch)",
        "loss = output.square().mean()",
        "output.register_hook(hook)",
        "loss.backward()",
        "optimizer.step()",
    ]
    head = ["def hook(gradient):", *hook, "    return gradient"]
    loop = [
        "    torch.set_num_threads(1)",
        *engine,
        f"    data = {names['data']}.Samples({150 * script.batch})",
        f"    loader = torch.utils.data.DataLoader(data, {script.batch}, "
        f"num_workers={script.workers}, collate_fn={names['data']}.collate)",
        "    for number, batch in enumerate(loader):",
    ]
    end = [f"        {names['logs']}.report(number, loss)", "        lost.step += 1"]
    tail = ["if __name__ == '__main__':", "    main()"]
    if not script.has_class:
        return [*head, "def main():", *loop, *(f"        {line}" for line in step), *end, *tail]
    method = [
        "class Trainer:",
        "    def train_step(self, net, optimizer, batch):",
        *(f"        {line}" for line in step),
        "        return loss",
    ]
    call = "        loss = Trainer().train_step(net, optimizer, batch)"
    return [*head, *method, "def main():", *loop, call, *end, *tail]
