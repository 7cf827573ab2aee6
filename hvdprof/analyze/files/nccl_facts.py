"""What NCCL's logs say: versions, communicators, ranks, transports and calls."""

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.nccl_rules.nccl_rule import HARMLESS
from hvdprof.analyze.nccl_join.nccl_call_join import CallJoin, JobJoin
from hvdprof.model.file_page import Fact
from hvdprof.model.nccl_recording import NcclRecording

_MOST_NAMES = 6
_NETWORKS = {"Socket": "TCP"}
_INSIDE = {"P2P": "peer access", "SHM": "shared memory"}
_KINDS = {
    "warning": "warning",
    "retry": "retried connection",
    "trail": "passed-on error",
    "completion": "failed work request",
    "watchdog": "watchdog line",
    "failure": "reported error",
    "died": "dead rank",
}


def nccl_facts(recording: NcclRecording) -> list[Fact]:
    """Versions, communicators, ranks, transports and calls of one job's NCCL logs."""
    communicators, ranks = recording.communicators, recording.ranks
    lines = recording.line_kinds
    number = int(communicators["num_joined"].sum())
    values = communicators["num_ranks"]
    known = values.dropna()
    of_ranks = [
        Fact("num_communicators", "communicators", number, text=_communicators(communicators)),
        Fact("largest_communicator", "largest, ranks", int(known.max()) if len(known) else None),
        Fact("num_complete", "inits completed", int(ranks["complete"].sum())),
        Fact("num_nccl_ranks", "of ranks seen, all communicators", len(ranks)),
    ]
    return [
        Fact("nccl_versions", "NCCL", versions_named(recording)),
        *(of_ranks if len(communicators) else ()),
        Fact("transports", "transports", _transports(recording)),
        Fact("num_calls", "collective calls", len(recording.calls)),
        *_problem_facts(recording),
        Fact("num_nccl_lines", "NCCL lines", int(lines["count"].sum())),
        Fact(
            "num_not_understood",
            "of them not understood",
            int(lines.loc[~lines["understood"], "count"].sum()),
        ),
    ]


def versions_named(recording: NcclRecording) -> str | None:
    """The versions of NCCL in the logs of a job."""
    return _named(recording.versions["version"])


def network_name(recording: NcclRecording) -> str:
    """Over what ranks exchange data: between hosts where a connection shows it, else within one.

    ``InfiniBand with GPUDirect``, ``TCP``, ``peer access``; empty without a connection.
    """
    outside = recording.connections[(recording.connections["transport"] == "NET").to_numpy()]
    if outside.empty:
        inside = (recording.connections["transport"].astype(str)).map(_INSIDE).dropna()
        return " and ".join(dict.fromkeys(inside))
    names = [
        _fabric(recording) if name == "IB" else _NETWORKS.get(name, name)
        for name in dict.fromkeys(map(str, outside["network"]))
    ]
    used = outside["gpudirect"]
    how = "with" if used.all() else "partly with" if used.any() else "without"
    is_rdma = any(name != _NETWORKS["Socket"] for name in names)
    return " and ".join(filter(None, names)) + (f" {how} GPUDirect" if is_rdma else "")


def _fabric(recording: NcclRecording) -> str:
    """What NCCL's NET/IB is, by the links and the names of the devices."""
    nics = recording.nics[(recording.nics["network"] == "IB").to_numpy()]
    if nics["name"].astype(str).str.startswith("hfi").any():
        return "Omni-Path"
    links = {str(link) for link in nics["link"] if str(link)}
    return {"IB": "InfiniBand", "RoCE": "RoCE"}.get("".join(links), "InfiniBand or RoCE")


def grave_problems(recording: NcclRecording) -> pd.DataFrame:
    """The warnings and errors of NCCL without those that healthy jobs print, too."""
    problems = recording.problems
    return problems[~problems["text"].astype(str).str.contains(HARMLESS).to_numpy(dtype=bool)]


def _problem_facts(recording: NcclRecording) -> list[Fact]:
    """How many lines NCCL prints as trouble, of which kind, and those that mean none by itself."""
    problems, grave = recording.problems, grave_problems(recording)
    number = int(grave["count"].sum())
    kinds = grave.groupby(grave["kind"].astype(str), sort=False)["count"].sum()
    listed = ", ".join(
        units.counted(int(value), _KINDS[str(kind)]) for kind, value in kinds.items()
    )
    facts = [Fact("num_problems", "warnings and errors", number, text=listed or units.count(0))]
    harmless = problems.drop(grave.index)
    if len(harmless):
        first = str(harmless.sort_values("count", ascending=False, kind="stable")["text"].iloc[0])
        count = int(harmless["count"].sum())
        text = f"{units.count(count)}, such as: {first}"
        facts.append(Fact("num_harmless", "printed by healthy jobs too", count, text=text))
    return facts


def _communicators(communicators: pd.DataFrame) -> str:
    """Their number by size; the log does not always distinguish those of one size."""
    number = int(communicators["num_joined"].sum())
    sizes = communicators.dropna(subset=["num_ranks"]).groupby("num_ranks")["num_joined"].sum()
    if len(sizes) < 2:
        return units.count(number)
    of_sizes = ", ".join(f"{count} of {size}" for size, count in sizes.items())
    return f"{units.count(number)} ({of_sizes} ranks)"


def join_facts(join: CallJoin) -> list[Fact]:
    """How many calls of rank 0 belong for sure to an execution of the timeline beside them."""
    return [
        Fact("num_joined_calls", "calls tied to executions", len(join.pairs)),
        Fact("num_unjoined_calls", "calls without an execution", join.num_unjoined_calls),
        Fact("num_unjoined_executions", "executions without a call", join.num_unjoined_executions),
        Fact("num_ambiguous_pairs", "ambiguous pairs", join.num_ambiguous),
    ]


def job_join_facts(joined: JobJoin) -> list[Fact]:
    """The same of a job beside any number of timelines, or why nothing was joined."""
    if joined.join is not None:
        timeline = Fact("timeline_of_calls", "timeline of its calls", joined.fitting[0])
        return [timeline, *join_facts(joined.join)]
    if not joined.fitting:
        reason = f"none of {joined.num_timelines} fits"
    elif len(joined.fitting) == 1:
        reason = f"{joined.fitting[0]} fits other logs too"
    else:
        reason = f"{len(joined.fitting)} of {joined.num_timelines} fit"
    return [Fact("timeline_of_calls", "timeline of its calls", reason)]


def _named(values: pd.Series) -> str | None:
    names = [str(name) for name in values.dropna().unique()]
    return ", ".join(names[:_MOST_NAMES]) or None


def _transports(recording: NcclRecording) -> str | None:
    """The number of connections by transport and their networks, else the network chosen."""
    connections, stated = recording.connections, recording.networks
    if connections.empty:
        return _named(stated.loc[stated["subject"] == "network", "text"])
    numbers = connections["transport"].astype(str).value_counts()
    networks = _named(connections.loc[connections["network"] != "", "network"])
    of = {"NET": f" ({networks})"} if networks else {}
    return ", ".join(f"{name} {n}{of.get(str(name), '')}" for name, n in numbers.items()) or None
