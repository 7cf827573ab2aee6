"""What public files say, read by this folder alone and never with a reader of hvdprof's.

Each function returns a multiset of facts as plain tuples. What a file cuts off is no fact.
"""

import re
from collections import Counter
from typing import Any

Facts = Counter[tuple[Any, ...]]

_WATCHDOG = re.compile(
    r"\[Rank (\d+)\] Watchdog caught collective operation timeout: "
    r"WorkNCCL\(SeqNum=(\d+), OpType=(\w+),"
)
_WHOLE_WATCHDOG = re.compile(_WATCHDOG.pattern + r"[^\[\]]* ran for \d+ milliseconds")
_VIA = re.compile(
    r"(?:Channel|Ring) (\d+)(?:/\d+)? : (\d+)(?:\[\w+\])? -> (\d+)(?:\[\w+\])?"
    r"(?: \[(?:send|receive)\])? via (\w+)(?=[/ ])"
)
_COMPLETE = re.compile(r"comm \w+ rank (\d+) nranks (\d+) .*Init COMPLETE")
_SIGNAL = re.compile(r"process rank (\d+) with PID \S+ on node \S+ exited on signal (\d+)")
_OPEN_MPI = re.compile(r"Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code:\s+(\d+)")
_TORCHRUN = re.compile(r"^\s*rank +: (\d+) \(local_rank: \d+\)\s+exitcode +: (\d+) ", re.MULTILINE)
_HOROVODRUN = re.compile(r"Process (\d+) exit with status code (\d+)")
_OLD_STALL = re.compile(r"([^\s,\[\]]+) \[(ready|missing) ranks: ([\d,\s]+)\]")
_NEW_STALL = re.compile(r"^(\d+): \[([^\[\]]+?)(?: \.\.\.)?\]$", re.MULTILINE)
_CUT_STALL = re.compile(r"^(\d+): \[([^\[\]]+)\Z", re.MULTILINE)
_TAG = re.compile(
    r"(?:^\S+ \S+ UTC \S+ -- |^\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})?"
    r"\[(?:1,)?\d+\]<std(?:out|err)>:",
    re.MULTILINE,
)
_SRUN = re.compile(r"srun: error: \S+: tasks? (\d+)[^:]*: Exited with exit code (\d+)")
_RATES = (
    re.compile(r"^Iter #\d+: ([\d.]+) img/sec", re.MULTILINE),
    re.compile(r"^Img/sec per \w+: ([\d.]+) ", re.MULTILINE),
    re.compile(r"^Total img/sec on \d+ \w+\(s\): ([\d.]+) ", re.MULTILINE),
    re.compile(r"^\d+\timages/sec: ([\d.]+) ", re.MULTILINE),
    re.compile(r"^total images/sec: ([\d.]+)$", re.MULTILINE),
    re.compile(r"-np \d+ .*total images/sec: ([\d.]+)`"),
    re.compile(r"^\d+GPUs?(?:\(.*\))?: ([\d.]+) images/s$", re.MULTILINE),
    re.compile(r"Tokens/s/device: ([\d.]+),"),
    re.compile(r" tps: ([\d,]+) .*mfu: "),
    re.compile(r"RunningAvgSamplesPerSec=([\d.]+),"),
    re.compile(r"Batch \(t\): [\d.]+s, ([\d.]+)/s "),
    re.compile(r"\| epoch \d+.*?wps=([\d.]+),"),
    re.compile(r'"wps": "([\d.]+)"'),
    re.compile(r"\(([\d.]+) examples/sec; "),
    re.compile(r"global_step/sec: ([\d.]+)$", re.MULTILINE),
)
_SECONDS = (
    re.compile(r" time: ([\d.]+),? +data_time: [\d.]+[, ]"),
    re.compile(r" time: ([\d.]+) \(([\d.]+)\)  data: "),
    re.compile(r"Batch time: ([\d.]+)\(([\d.]+)\)"),
    re.compile(r"time per step = 0:00:([\d.]+)$", re.MULTILINE),
)
_MILLISECONDS = re.compile(r"iter \d+: loss \S+, time ([\d.]+)ms")
_WHOLE_ROW = 8
_TYPES = {"float", "half", "double", "bfloat16", "int8", "uint8", "int32", "f32"}


def timeouts(text: str) -> Facts:
    """Rank, number and operation of each collective that a rank's watchdog gave up.

    A line that does not begin with `[` continues the one before, broken anywhere or between
    words, if it makes the record whole.
    """
    found = _WATCHDOG.findall(text)
    for glue in ("", " "):
        found += _WHOLE_WATCHDOG.findall(re.sub(r"\n(?!\[)", glue, text))
    return Counter({(int(rank), int(number), kind): 1 for rank, number, kind in found})


def connections(text: str) -> Facts:
    """Channel, sender, receiver and transport of each line with ``via``."""
    lines = (_VIA.search(line) for line in text.splitlines() if "NCCL INFO" in line)
    return Counter(
        (int(found[1]), int(found[2]), int(found[3]), _transport(found[4]))
        for found in lines
        if found
    )


def _transport(word: str) -> str:
    return "SHM" if word in ("SHM", "direct") else word


def completed(text: str) -> Facts:
    """Rank and size of the communicators that were initialised."""
    found = (_COMPLETE.search(line) for line in text.splitlines())
    return Counter({(int(one[1]), int(one[2])): 1 for one in found if one})


def test_rows(text: str) -> Facts:
    """Size, in place or not, time in us and bus bandwidth of nccl-tests; foreign tables are none.

    A row counts where it is whole, or where its table has the header of nccl-tests and the row is
    not the last one of a file that is cut.
    """
    rows: Facts = Counter()
    is_headed, is_typed, order = False, True, (False, True)
    lines = _TAG.sub("", text).splitlines()
    for place, line in enumerate(lines):
        words = line.split("|")[0].split()
        if "algbw" in words and ("error" in words or "#wrong" in words):
            is_headed, is_typed = True, "type" in words
        if words[-2:] == ["in-place", "out-of-place"]:
            order = (True, False)
        numbers = _numbers(words, is_typed=is_typed)
        is_whole = len(numbers) == _WHOLE_ROW
        if not (is_whole or (is_headed and place < len(lines) - 1)):
            continue
        for in_place, values in zip(order, (numbers[:4], numbers[4:8]), strict=True):
            if len(values) == len(("time", "algbw", "busbw", "wrong")):
                rows[int(words[0]), in_place, float(values[0]), float(values[2])] += 1
    return rows


def _numbers(words: list[str], *, is_typed: bool) -> list[str]:
    """The measurements of a row; empty where the words are no row."""
    head = 3 if is_typed else 2
    if len(words) <= head or not (words[0].isdigit() and words[1].isdigit()):
        return []
    if is_typed and words[2] not in _TYPES:
        return []
    rest = words[head + 1 :] if words[head].isalpha() else words[head:]
    # An odd number of them begins with the root.
    return rest[1:] if len(rest) % 2 else rest


def stalls(text: str) -> Facts:
    """Tensor, state and rank that a stall warning of Horovod's names."""
    plain = _TAG.sub("", text)
    found: Facts = Counter()
    for name, state, ranks in _OLD_STALL.findall(re.sub(r"\n(?=[\],])", "", plain)):
        for rank in re.findall(r"\d+", ranks):
            found[name, state, int(rank)] = 1
    for rank, names in _NEW_STALL.findall(
        re.split("(?:Missing|Stalled) ranks:", plain, maxsplit=1)[-1]
    ):
        for name in names.split(", "):
            found[name, "missing", int(rank)] = 1
    for rank, names in _CUT_STALL.findall(plain):
        for name in names.replace("\n", "").split(", ")[:-1]:
            found[name, "missing", int(rank)] = 1
    return found


def rates(text: str) -> Facts:
    """Every rate that is printed, and steps per second of every time of a step."""
    plain = _TAG.sub("", text)
    numbers = [one for pattern in _RATES for one in pattern.findall(plain)]
    stated = [float(one.replace(",", "")) for one in numbers]
    times = [float(one) for pattern in _SECONDS for found in pattern.finditer(plain)
             for one in found.groups()]  # fmt: skip
    times += [float(one) / 1000 for one in _MILLISECONDS.findall(plain)]
    return Counter((significant(one),) for one in (*stated, *(1 / time for time in times)))


def significant(number: float) -> float:
    """A number to six digits, which two ways to it have in common."""
    return float(f"{number:.6g}")


def ends(text: str) -> Facts:
    """Rank, exit code and signal of each process whose end a launcher reports.

    Of a list of tasks the first stands for all.
    """
    plain = _TAG.sub("", text)
    by_signal = {(int(rank), None, int(number)): 1 for rank, number in _SIGNAL.findall(plain)}
    by_code = {
        (int(rank), int(code), None): 1
        for pattern in (_OPEN_MPI, _HOROVODRUN, _SRUN)
        for rank, code in pattern.findall(plain)
    }
    # Of a list of torchrun's only the process that failed first is the cause.
    reports = plain.split("Root Cause (first observed failure):")[1:]
    firsts = [first for report in reports if (first := _TORCHRUN.search(report))]
    by_torchrun = {(int(first[1]), int(first[2]), None): 1 for first in firsts}
    return Counter(by_signal | by_code | by_torchrun)
