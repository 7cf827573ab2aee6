"""Texts as launchers, services and people pass them on: with log prefixes of every form."""

import json
from collections.abc import Callable
from dataclasses import dataclass

STAMP = "2026-11-20T21:56:09.{:09d}Z"


@dataclass(frozen=True, slots=True)
class Prefix:
    """A form of log prefix: its name, what it makes of a text, and the rank and host in it."""

    name: str
    of: Callable[[str], str]
    rank: int | None = None
    host: str = ""

    def __repr__(self) -> str:
        """The name, for the ids of tests."""
        return self.name


def before(text: str) -> Callable[[str], str]:
    """What puts a text before every line; ``{n}`` in it is the number of the line."""

    def wrap(printed: str) -> str:
        lines = printed.splitlines()
        return "".join(f"{text.replace('{n}', str(n))}{line}\n" for n, line in enumerate(lines, 1))

    return wrap


def _numbered(form: str) -> Callable[[str], str]:
    def wrap(printed: str) -> str:
        lines = printed.splitlines()
        return "".join(f"{form.format(n)}{line}\n" for n, line in enumerate(lines, 1))

    return wrap


def _coloured(printed: str) -> str:
    return "".join(f"\x1b[0;36m{line}\x1b[0m\n" for line in printed.splitlines())


def _titled(printed: str) -> str:
    return "".join(f"\x1b]0;job\x07{line}\n" for line in printed.splitlines())


def _docker_json(printed: str) -> str:
    records = (
        {"log": f"{line}\n", "stream": "stdout", "time": STAMP.format(n)}
        for n, line in enumerate(printed.splitlines())
    )
    return "".join(f"{json.dumps(record)}\n" for record in records)


def _journal_json(printed: str) -> str:
    return "".join(
        json.dumps({"_HOSTNAME": "oak1", "MESSAGE": line}) + "\n" for line in printed.splitlines()
    )


def _in_two(prefix: str) -> Callable[[str], str]:
    """CRI lines that are long come in parts, marked P up to the last, which is marked F."""

    def wrap(printed: str) -> str:
        text = ""
        for line in printed.splitlines():
            half = len(line) // 2
            text += f"{prefix} P {line[:half]}\n{prefix} F {line[half:]}\n"
        return text

    return wrap


_ISO = "2026-11-20T21:56:09.123456789Z "

PREFIXES = (
    Prefix("mpirun", before("[1,3]<stdout>:"), 3),
    Prefix("mpirun 5", before("[1,3]<stdout>: "), 3),
    Prefix("mpirun with date", before("Fri Nov 20 21:56:09 2026[1,3]<stdout>:"), 3),
    Prefix("prterun with date", before("[Fri Nov 20 21:56:09 2026][1,3]<stderr>: "), 3),
    Prefix("prterun date alone", before("[Fri Nov 20 21:56:09 2026]<stderr>: ")),
    Prefix("prterun tag-detailed", before("[1,3][oak1:4711]<stdout>: "), 3),
    Prefix("prterun tag-fullname", before("[prterun-oak1-4711@1,3]<stdout>: "), 3),
    Prefix("horovodrun", before("[3]<stdout>:"), 3),
    Prefix("SageMaker", before("[1,mpirank:3,algo-1]<stdout>:"), 3),
    Prefix("srun", before("3: "), 3),
    Prefix("srun of many", before("  3: "), 3),
    Prefix("Hydra", before("[0] "), 0),
    Prefix("PALS", before("oak1.example.org 3: "), 3, "oak1.example.org"),
    Prefix("docker -t", before(_ISO)),
    Prefix("GitHub Actions", before("2026-11-20T21:56:09.1234567Z ")),
    Prefix("gh run view", before(f"train\tRun job\t{_ISO}")),
    Prefix("offset", before("2026-11-20T22:56:09+01:00 ")),
    Prefix("CRI", before(f"{_ISO}stdout F ")),
    Prefix("docker JSON", _docker_json),
    Prefix("journal JSON", _journal_json),
    Prefix("journald", before("Nov 20 21:56:09 oak1 python3[4711]: "), host="oak1"),
    Prefix("journald -o short-iso", before("2026-11-20T21:56:09+0100 oak1 run[9]: "), host="oak1"),
    Prefix("syslog 3164", before("<13>Nov  2 21:56:09 oak1 slurmstepd: "), host="oak1"),
    Prefix("syslog 5424", before(f"<13>1 {_ISO}oak1 app 4711 ID47 - "), host="oak1"),
    Prefix("ts", before("Nov 20 21:56:09 ")),
    Prefix("Ray", before("(RayTrainWorker pid=4711, ip=10.0.0.7) "), host="10.0.0.7"),
    Prefix("Ray in colours", before("\x1b[36m(train_fn pid=4711)\x1b[0m ")),
    Prefix("Ray bare", before("(pid=4711) ")),
    Prefix("SkyPilot", before("(worker1, rank=3, pid=4711, ip=10.0.0.7) "), 3, "10.0.0.7"),
    Prefix("torchrun", before("[default0]:")),
    Prefix("PyTorch", before("[rank3]: "), 3),
    Prefix("kubectl --prefix", before("[pod/job-worker-3/main] "), host="job-worker-3"),
    Prefix("compose", before("worker-3  | "), host="worker-3"),
    Prefix("compose of a name", before("trainer | "), host="trainer"),
    Prefix("stern", before("job-worker-3 main "), host="job-worker-3"),
    Prefix("quoted", before("> ")),
    Prefix("quoted twice", before("> > ")),
    Prefix("indented", before("    ")),
    Prefix("cat -n", _numbered("{:6d}\t")),
    Prefix("less -N", _numbered("{:7d} ")),
    Prefix("grep -n", _numbered("{}:")),
    Prefix("bat", _numbered("{:4d} │ ")),
    Prefix("coloured", _coloured),
    Prefix("titled", _titled),
)
"""Every form once, with the rank 3 where it carries one, but for Hydra, which needs a rank 0."""

OUTERMOST = frozenset(
    ("quoted", "quoted twice", "indented", "cat -n", "less -N", "grep -n", "bat", "gh run view")
)
"""Forms of those who show or quote a whole file: no launcher writes its own before them."""

IN_TWO = Prefix("CRI in two parts", _in_two(f"{_ISO}stdout"))
"""The only form that changes the number of lines."""
