"""Rules on where the ranks run: threads, pinning of Horovod's thread, controller, hosts."""

from collections.abc import Iterator

from hvdprof.analyze.tune.proposal import Knob, Proposal, Untried
from hvdprof.analyze.tune.tuned_job import GLOO, MPI, TunedJob
from hvdprof.model.results.tuning import Candidate

THREADS = Knob("OMP_NUM_THREADS", "num_threads")
MKL_THREADS = "MKL_NUM_THREADS"
WAIT_POLICY = "OMP_WAIT_POLICY"
AFFINITY = "HOROVOD_THREAD_AFFINITY"
BINDING = "OMP_PROC_BIND"

_SETS_THREADS = "set_num_threads("


def threads(job: TunedJob) -> Iterator[Proposal]:
    """The number of threads that a rank computes with, where it computes on cores."""
    cores, own = job.setting.num_cores, job.threads
    if job.setting.on_gpus or not cores or not own:
        return
    fair = max(1, cores // job.ranks_per_host)
    if _is_hard_coded(job):
        yield Untried(
            THREADS.variable,
            f"The script sets its number of threads ({own}) itself, so no variable changes it. "
            f"{fair} would fit {job.ranks_per_host} ranks on {cores} cores.",
        )
        return
    ladder = [fair, fair - 1] if fair > 1 else [fair]
    if own < fair:
        ladder.append((own + fair) // 2)
    values = [value for value in dict.fromkeys(ladder) if value not in (own, 0)]
    why = (
        f"{job.ranks_per_host} ranks with {own} threads each on {cores} cores: "
        f"{'more threads than cores' if own > fair else 'cores are left'}."
        if own != fair
        else "One thread less leaves a core for the thread that communicates."
    )
    if not job.sets_threads:
        yield from _by_variables(job, values, why)
    else:
        for value in values:
            yield Candidate(
                name=f"{THREADS.variable}={value}",
                options={THREADS.option: value},
                why=why,
                finding=job.finding("compute-inflation"),
            )


def _by_variables(job: TunedJob, values: list[int], why: str) -> Iterator[Candidate]:
    # What MKL has of its own comes before OMP_NUM_THREADS.
    also = [MKL_THREADS] if job.variable(MKL_THREADS) is not None else []
    for value in values:
        yield Candidate(
            name=f"{THREADS.variable}={value}",
            environment=dict.fromkeys([THREADS.variable, *also], str(value)),
            why=why,
            finding=job.finding("compute-inflation"),
        )


def wait_policy(job: TunedJob) -> Iterator[Proposal]:
    """Whether threads spin while they wait for work, which takes cores from other ranks."""
    if job.setting.on_gpus or job.threads < 2:
        return
    present = (job.variable(WAIT_POLICY) or "").lower()
    if present == "active":
        yield Candidate(
            name=f"{WAIT_POLICY}=passive",
            environment={WAIT_POLICY: "passive"},
            why=f"{WAIT_POLICY}=active is set: threads without work keep cores busy.",
        )


def binding(job: TunedJob) -> Iterator[Proposal]:
    """Threads that are bound to cores: all ranks of a host read the same list of cores."""
    if job.setting.on_gpus or job.ranks_per_host < 2:
        return
    # OMP_PROC_BIND=false also overrides the list of libgomp.
    for name in (BINDING, "GOMP_CPU_AFFINITY"):
        present = job.variable(name) or "false"
        if present.lower() != "false":
            yield Candidate(
                name=f"{BINDING}=false",
                environment={BINDING: "false"},
                why=f"{name}={present} binds threads, and {job.ranks_per_host} ranks of a host may "
                "share the same cores.",
            )
            return


def _is_hard_coded(job: TunedJob) -> bool:
    """Whether the script decides over its threads: not as the environment, nor as the cores say."""
    if job.sets_threads:
        return False
    usual = {int(job.ranks["num_affinity_cores"].max()), job.setting.num_cores}
    text = job.variable(THREADS.variable)
    if text is not None and text.isdecimal():
        # torch takes no more threads than cores, however many are asked for.
        return job.threads not in {int(text), *(min(int(text), cores) for cores in usual)}
    # torch may count two hyper-threads as one core.
    halves = set() if _SETS_THREADS in job.means.script_text else {number // 2 for number in usual}
    return job.threads not in usual | halves


def thread_affinity(job: TunedJob) -> Iterator[Proposal]:
    """The core of Horovod's background thread: one of its own, where ranks leave some."""
    if not job.is_horovod:
        return
    present = job.variable(AFFINITY)
    if present:
        yield Candidate(
            name=f"{AFFINITY}=",
            environment={AFFINITY: ""},
            why=f"{AFFINITY}={present} binds Horovod's threads to cores; without it they are free.",
        )
        return
    local, cores = job.ranks_per_host, job.setting.num_cores
    spare = cores - local * max(1, job.threads)
    if job.matters and not job.setting.on_gpus and job.threads and spare >= local:
        if not _has_all_cores(job):
            yield Untried(
                AFFINITY,
                f"The job may use {cores} cores, a part of those of the machine; the ids of free "
                "ones are unknown.",
            )
            return
        last = ",".join(map(str, range(cores - local, cores)))
        yield Candidate(
            name=f"{AFFINITY}={last}",
            environment={AFFINITY: last},
            why=f"{spare} of {cores} cores run no thread of a rank and can run Horovod's.",
        )


def _has_all_cores(job: TunedJob) -> bool:
    """Whether cores are numbered from 0: the job may use all cores of each of its hosts."""
    hosts = job.evidence.run.manifest.hosts
    cores = job.setting.num_cores
    known = {(host.get("num_cores"), host.get("num_machine_cores")) for host in hosts}
    return known == {(cores, cores)} and not (job.ranks["num_affinity_cores"] < cores).any()


def controller(job: TunedJob) -> Iterator[Proposal]:
    """The library that negotiates, and without GPUs also reduces."""
    present = job.setting.controller
    if not job.is_horovod or not job.matters or present not in (GLOO, MPI):
        return
    if job.options.get("launcher", "auto") != "auto":
        yield Untried("controller", "--launcher is given, and launchers decide the controller.")
        return
    other = MPI if present == GLOO else GLOO
    if other not in job.means.controllers:
        yield Untried("controller", f"Horovod was built without {other}.")
        return
    reduces = "negotiates" if job.setting.on_gpus else "negotiates and reduces"
    yield Candidate(
        name=f"controller {other}",
        options={"controller": other},
        why=f"{present} {reduces} here; {other} may be faster.",
        finding=job.finding("gloo-transfer", "below-network"),
    )


def ranks_per_host(job: TunedJob) -> Iterator[Proposal]:
    """Another distribution over the hosts: all on as few as possible, or evenly over all."""
    slots = _slots(str(job.options.get("hosts") or ""))
    if job.num_ranks < 2 or len(slots) < 2 or not job.matters:
        return
    present = _filled(slots, job.num_ranks)
    even = _even(slots, job.num_ranks)
    largest = max(slots, key=lambda host: slots[host])
    packed = {largest: job.num_ranks} if slots[largest] >= job.num_ranks else {}
    for placed, what in (
        (even, "Ranks spread evenly share the cores and memory of fewer others."),
        (packed, "On one host no collective crosses the network."),
    ):
        if placed and sorted(placed.items()) != sorted(present.items()):
            hosts = ",".join(f"{host}:{number}" for host, number in placed.items())
            yield Candidate(name=f"hosts {hosts}", options={"hosts": hosts}, why=what)


def _slots(hosts: str) -> dict[str, int]:
    """The slots of ``h1:4,h2:4``; a host without a number has one."""
    parts = (part.strip().rpartition(":") for part in hosts.split(",") if part.strip())
    return {name or number: int(number) if name else 1 for name, _, number in parts}


def _filled(slots: dict[str, int], num_ranks: int) -> dict[str, int]:
    placed: dict[str, int] = {}
    for host, number in slots.items():
        ranks = min(number, num_ranks - sum(placed.values()))
        if ranks > 0:
            placed[host] = ranks
    return placed


def _even(slots: dict[str, int], num_ranks: int) -> dict[str, int]:
    """The ranks one by one on the host with the fewest; none where the slots do not suffice."""
    placed = dict.fromkeys(slots, 0)
    for _ in range(num_ranks):
        free = [host for host in slots if placed[host] < slots[host]]
        if not free:
            return {}
        placed[min(free, key=lambda host: placed[host])] += 1
    return {host: number for host, number in placed.items() if number}
