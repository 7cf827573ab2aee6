"""Files of other tools by their first block: what, of which rank, and what to run instead."""

import re
from dataclasses import dataclass

from hvdprof.model.file_page import PROFILER_TRACE

_KINETO = re.compile(
    rb'"deviceProperties"|"Kineto|"cuda_runtime"|"cpu_op"|"ProfilerStep#|"Trace id"'
    rb'|"distributedInfo"'
)
_THREADS = re.compile(rb'"tid"\s*:')
_DISTRIBUTED = re.compile(rb'"distributedInfo"\s*:\s*\{(.{0,400})', re.DOTALL)
_NUMBER = rb'"%s"\s*:\s*(\d{1,7})\b'
_RANK, _WORLD_SIZE = re.compile(_NUMBER % b"rank"), re.compile(_NUMBER % b"world_size")
_PICKLED_DUMP = re.compile(rb"pg_config|pg_status|collective_seq_id")
# With the quotes of a key: a log in JSON quotes them once more. Traces have pg_config, too.
_JSON_DUMP = re.compile(rb"\"(?:pg_status|collective_seq_id)\"\s*:")
_JSON = re.compile(rb"\s*\{")
_RAS = re.compile(rb"\s*(?:OK\s*)?\{\s*\"nccl_version\"")
_RAS_EVENT = re.compile(
    rb'\s*(?:OK\s*)?\{\s*"timestamp": *"[^"]*",\s*"group": *"(?:LIFECYCLE|TRACE)",\s*"event":'
)
_RAS_HOLDS = re.compile(rb"\"communicators(?:_count)?\"")
_STACKS = re.compile(rb"\s*\[?\s*\{\s*\"pid\": *\d+,\s*\"thread_id\":")
_STORE = re.compile(rb"(?:[\w/-]+ ?: b['\"].*\n)*(?:debug_server/rank|default_pg/)\S*: b['\"]")
_NCCL_TESTS = re.compile(rb'\s*\{\s*"version": *\d+,\s*"start_time": *"[^"]*",\s*"args": *\[')
_OF_PHASE_LOG = (b'"log_type_name": ', b'"time_us": ', b'"source": ')
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_NSYS = re.compile(rb"CUPTI_ACTIVITY_KIND|TARGET_INFO_|NVTX_EVENTS")
_FIRST_BYTES = (
    (b"PAR1", "a Parquet file"),
    (b"\x7fELF", "a program (ELF)"),
    (b"\x89PNG", "a picture"),
    (b"%PDF", "a PDF document"),
    (b"numCycle,collective,", "a CSV file of rccl-tests, whose text output is read"),
)
_MANIFEST = re.compile(rb'\s*\{\s*"schema_version": \d+,\s*"hvdprof_version": "')
_PARTS = tuple(
    (re.compile(rb"\s*\{\s*" + begin), f"{what}, part of a run directory")
    for begin, what in (
        (rb'"gradient_bytes": ', "how a script wraps its model in DDP"),
        (rb'"requests": \[', "what a watcher asks of a rank"),
        (rb'"schema_version": \d+,\s*"pass_id": "', "the plan of a launch"),
        (rb'"schema_version": \d+,\s*"settings": \{', "what --resume starts again"),
        (rb'"rank": \d+, "pid": \d+, "hostname": "', "the state of a rank"),
        (rb'"kind": "stall", ', "the stalls of a launch"),
    )
)
PARTS = frozenset(what for _, what in _PARTS)
"""Files of a run directory that are read with it alone."""

_SQLITE = b"SQLite format 3\0"
_RECORD = (
    "Record the script itself: hvdprof run --np N -- python train.py for Horovod, with --launcher "
    "torchrun for DDP and FSDP2."
)
_BESIDE = "Where ranks are is in the files stacks_*.txt and fr_trace_*.txt of the same folder."


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """What a file is, and what gives the answers that it cannot give; empty where nothing does."""

    what: str
    hint: str = ""


_GIVE_RUN = "Give the run directory that it lies in: hvdprof analyze FOLDER"
_WHOLE_MANIFEST = ForeignFile("the manifest of a run directory", _GIVE_RUN)
_CUT_MANIFEST = ForeignFile(
    "the beginning of the manifest of a run directory",
    "It is written whole or not at all, so copy the run directory again from where it was made.",
)


def foreign_file(head: bytes, tail: bytes) -> ForeignFile | None:
    """The part of a run, binary file or dump of another tool with these ends; None for others."""
    if _MANIFEST.match(head):
        is_whole = (tail or head).rstrip().endswith(b"}")
        return _WHOLE_MANIFEST if is_whole else _CUT_MANIFEST
    for begin, what in _PARTS:
        if begin.match(head):
            return ForeignFile(what, _GIVE_RUN)
    if _STORE.match(head):
        return ForeignFile("a list of keys of torch.distributed's TCPStore", _BESIDE)
    for magic, name in _FIRST_BYTES:
        if head.startswith(magic):
            return ForeignFile(name)
    if head.startswith(_SQLITE):
        return ForeignFile("a SQLite database")
    if _PICKLE.match(head):
        return ForeignFile("a Python pickle, which may run code when it is loaded")
    return None


def is_flight_recorder(head: bytes, tail: bytes) -> bool:
    """Whether a file with these ends is a dump of PyTorch's Flight Recorder, JSON or pickle."""
    if _PICKLE.match(head):
        return bool(_PICKLED_DUMP.search(head) or _PICKLED_DUMP.search(tail))
    return bool(_JSON.match(head) and (_JSON_DUMP.search(head) or _JSON_DUMP.search(tail)))


def is_nsys_export(head: bytes, tail: bytes) -> bool:
    """Whether a file with these ends is an export of Nsight Systems in SQLite."""
    return head.startswith(_SQLITE) and bool(_NSYS.search(head) or _NSYS.search(tail))


def is_comms_summary(head: bytes) -> bool:
    """Whether a file that begins so is a summary of DeepSpeed's comms logger in JSON."""
    return bool(_JSON.match(head)) and b'"busbw_avg_gbps"' in head


def is_ras_report(head: bytes) -> bool:
    """Whether a file that begins so is a status of NCCL's RAS subsystem in JSON, or its events."""
    return is_ras_events(head) or bool(_RAS.match(head) and _RAS_HOLDS.search(head))


def is_ras_events(head: bytes) -> bool:
    """Whether a file that begins so holds events of ``ncclras -m -f json``, one after another."""
    return bool(_RAS_EVENT.match(head))


def is_stack_dump(head: bytes) -> bool:
    """Whether a file that begins so is a dump of ``py-spy dump --json``."""
    return bool(_STACKS.match(head))


def is_nccl_tests(head: bytes) -> bool:
    """Whether a file that begins so is what nccl-tests writes with ``-J``."""
    return bool(_NCCL_TESTS.match(head))


def is_phase_log(head: bytes) -> bool:
    """Whether a file that begins so is a log of phases of a rank by torchtitan."""
    first = head.partition(b"\n")[0]
    return bool(_JSON.match(head)) and all(key in first for key in _OF_PHASE_LOG)


def profiler_trace(text: bytes) -> str:
    """What a trace of torch.profiler with this text in it is; empty for any other file."""
    if not _KINETO.search(text):
        return ""
    job = _DISTRIBUTED.search(text)
    rank, size = (_found(number, job[1] if job else b"") for number in (_RANK, _WORLD_SIZE))
    return f"{PROFILER_TRACE}{_of_rank(rank, size)}"


def foreign_trace(text: bytes) -> ForeignFile | None:
    """The Chrome trace of another program with this text in it; None where it may be Horovod's."""
    if _THREADS.search(text):
        return ForeignFile("a Chrome trace of another program, not Horovod's", _RECORD)
    return None


def _found(number: re.Pattern[bytes], text: bytes) -> int | None:
    match = number.search(text)
    return int(match[1]) if match else None


def _of_rank(rank: int | None, size: int | None) -> str:
    if rank is None:
        return ""
    return f" of rank {rank}" if size is None else f" of rank {rank} of {size}"


def torch_recording_hint(size: int) -> str:
    """The command that records every rank of a script of torch.distributed, of so many ranks."""
    command = f"hvdprof run --launcher torchrun --np {size} -- python train.py"
    return f"Or record a script of torch.distributed: {command}."
