"""The first sentence of a log without a failure: what it shows, and what it does not hold."""

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.nccl_facts import grave_problems, network_name, versions_named
from hvdprof.model.file_page import FileVerdict, Gravity
from hvdprof.model.nccl_recording import NcclRecording

_SEVERE = ("warning", "error", "fatal")


def logged_verdict(incidents: pd.DataFrame, log: pd.DataFrame) -> FileVerdict:
    """The first trouble in output without a failure of its own, else that the log has none.

    Args:
        incidents: Rows of INCIDENTS of one file.
        log: Rows of HOROVOD_LOG of the same file.
    """
    severe = log[log["level"].isin(_SEVERE).to_numpy()]
    if incidents.empty and severe.empty:
        if log.empty:
            return FileVerdict("")
        clean = f"Nothing wrong found in {units.counted(len(log), 'line')} of Horovod's log"
        return FileVerdict(f"{clean}; hvdprof reads no rate in this file.", gravity=Gravity.CLEAN)
    first = (severe if incidents.empty else incidents).iloc[0]
    lead = str(first["level"]).capitalize() if incidents.empty else "Warning"
    message = str(first["message"]).strip().rstrip(".")
    return FileVerdict(f"{lead} in line {first['line']}: {message}.", gravity=Gravity.WARNING)


def autotune_verdict(samples: pd.DataFrame) -> FileVerdict:
    """The best sample of Horovod's autotuning, and that of each log where there are several.

    Args:
        samples: Rows of AUTOTUNE of one file.
    """
    if samples.empty:
        return FileVerdict("")
    best = samples.iloc[int(samples["score"].to_numpy().argmax())]
    number, logs = len(samples), int(samples["run"].nunique())
    of = f"{units.counted(number, 'sample')}{f' of {logs} tunings' if logs > 1 else ''}"
    threshold = units.byte_size(float(best["fusion_threshold_mb"]) * 2**20)
    settings = (
        f"cycle time {units.milliseconds(best['cycle_time_ns'])}, fusion threshold {threshold}"
    )
    score = units.of_unit(float(best["score"]), "MB/s")
    caveat = "" if samples["final"].any() else "The log does not show that tuning finished."
    return FileVerdict(f"Best of {of}: {settings} ({score} reduced).", caveat)


def nccl_verdict(recording: NcclRecording, findings: pd.DataFrame) -> FileVerdict:
    """What the NCCL logs of a job show where no rule warns, and what they lack.

    ``Nothing wrong found`` takes complete inits and connections; less shows too little for it.

    Args:
        recording: The logs of one job.
        findings: FINDINGS on them, notes alone.
    """
    ranks, connections = recording.ranks, recording.connections
    complete, seen = int(ranks["complete"].sum()), len(ranks)
    lines = int(recording.line_kinds["count"].sum())
    grave = int(grave_problems(recording)["count"].sum())
    sizes = recording.communicators["num_ranks"].dropna()
    shown = [f"NCCL {versions_named(recording)}" if len(recording.versions) else ""]
    shown += [units.counted(int(sizes.max()), "rank") if len(sizes) else ""]
    shown += [network_name(recording)]
    shown += [f"Init COMPLETE of {complete} of {seen} ranks seen" if complete < seen else ""]
    lacks = ["communicator"] * sizes.empty + ["connection"] * connections.empty + ["bandwidth"]
    if grave:
        lead = f"No known cause for {units.counted(grave, 'line')} that NCCL prints as trouble"
    elif complete and complete >= seen and len(connections) and findings.empty:
        lead = "Nothing wrong found"
    else:
        lead = f"No warning or error in {units.counted(lines, 'NCCL line')}"
    text = ": ".join(filter(None, (lead, ", ".join(filter(None, shown)))))
    notes = ""
    if len(findings):
        more = f" and {units.count(len(findings) - 1)} more" if len(findings) > 1 else ""
        notes = f" Note: {findings['phrase'].iloc[0]}{more}."
    listed = " or ".join(filter(None, (", ".join(lacks[:-1]), lacks[-1])))
    return FileVerdict(
        f"{text}; hvdprof reads no {listed} in this file.{notes}", gravity=Gravity.CLEAN
    )
