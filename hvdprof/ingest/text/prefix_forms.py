r"""The log prefixes that services, launchers and people put before lines, one entry for each form.

A form for ``LINES`` is recognised in a single line, one for ``FILES`` only where nearly all lines
of a file have it, because its lines could be content: a table row begins with a number too.

Tested in ``tests/ingest/text/test_log_lines.py``.
"""

from dataclasses import dataclass

from hvdprof.rundir.failures.log_prefixes import DATE_TAG, SRUN_TAG, TAG_AND_BLANK, TORCH_TAG

_STAMP = r"(?P<stamp>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d))"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_BSD_STAMP = rf"{_MONTH} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})?"
_HOST = r"(?P<host>[\w.:-]{1,253})"
_END = r"(?: |$)"


@dataclass(frozen=True, slots=True)
class PrefixForm:
    """One form of log prefix.

    ``pattern`` may have the groups ``rank``, ``host``, ``stamp`` (RFC 3339) and ``partial``, which
    is ``P`` where the next line continues this one. ``source`` is where the form is documented.
    """

    name: str
    pattern: str
    source: str


LINES = (
    PrefixForm(
        "mpirun --tag-output, prterun --output tag|tag-detailed|tag-fullname, horovodrun",
        rf" *{TAG_AND_BLANK.pattern}",
        "openpmix/openpmix src/common/pmix_iof.c; horovod/runner/common/util/safe_shell_exec.py",
    ),
    PrefixForm(
        "mpirun --timestamp-output without tags", DATE_TAG.pattern, "openpmix src/common/pmix_iof.c"
    ),
    PrefixForm(
        "container runtime (CRI) of Kubernetes",
        rf"{_STAMP} std(?:out|err) (?P<partial>[FP])(?::\w+)*{_END}",
        "kubernetes/kubernetes pkg/kubelet/kuberuntime/logs/logs.go",
    ),
    PrefixForm(
        "rsyslog and journalctl -o short-iso",
        rf"{_STAMP} {_HOST} [\w./@-]{{1,100}}\[\d{{1,9}}\]:{_END}",
        "man journalctl (short-iso); RSYSLOG_FileFormat",
    ),
    PrefixForm(
        "docker logs -t, kubectl logs --timestamps, GitHub Actions",
        rf"\ufeff?{_STAMP}{_END}",
        "RFC 3339; docs.docker.com/reference/cli/docker/container/logs",
    ),
    PrefixForm(
        "services that keep logs of jobs",
        r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z| UTC)? [\w.-]+ -- ",
        "specimens of Horovod's issues",
    ),
    PrefixForm(
        "syslog (RFC 5424)",
        rf"<\d{{1,3}}>1 {_STAMP} {_HOST} \S{{1,48}} \S{{1,128}} \S{{1,32}} "
        rf"(?:-|(?:\[[^\]]{{0,500}}\])+){_END}",
        "RFC 5424, section 6",
    ),
    PrefixForm(
        "syslog (RFC 3164)",
        rf"<\d{{1,3}}>{_BSD_STAMP} {_HOST} [\w./@-]{{1,100}}(?:\[\d{{1,9}}\])?:{_END}",
        "RFC 3164, section 4.1",
    ),
    # Without a process id, `total images/sec: ` behind the stamp of `ts` looks like a host's.
    PrefixForm(
        "journalctl, ts of moreutils",
        rf"{_BSD_STAMP}"
        rf"(?: {_HOST} (?:[\w./@-]{{1,100}}\[\d{{1,9}}\]|kernel|slurmstepd):)?{_END}",
        "man journalctl (short, short-precise); man ts",
    ),
    PrefixForm(
        "Ray, SkyPilot, vLLM",
        r"\([^\n]{0,160}?(?:rank=(?P<rank>\d{1,7}), )?pid=\d{1,10}"
        rf"(?:, ip=(?P<host>[\w.:-]{{1,100}}))?\){_END}",
        "ray-project/ray python/ray/_private/worker.py; skypilot sky/skylet/log_lib.py",
    ),
    PrefixForm(
        "kubectl logs --prefix",
        rf"\[pod/(?P<host>[\w.-]{{1,253}})/[\w.-]{{1,63}}\]{_END}",
        "kubernetes/kubectl pkg/cmd/logs/logs.go",
    ),
    PrefixForm("PyTorch", TORCH_TAG.pattern, "pytorch/pytorch torch/distributed/c10d_logger.py"),
    # The number is the local rank: it says nothing about the rank in a job of several hosts.
    PrefixForm(
        "torchrun --tee",
        r"\[[a-z][a-z_-]{0,40}\d{1,5}\]: ?",
        "pytorch/pytorch torch/distributed/elastic/multiprocessing/api.py",
    ),
)
"""Forms that one line shows for certain, the longer of two alike first."""

SRUN = PrefixForm(
    "srun --label, flux run --label-io, ctest -V",
    r" {0,4}(?P<rank>\d{1,5}):(?: |$)",
    "man srun (--label)",
)
PART_SRUN = PrefixForm(SRUN.name, rf"(?:{SRUN_TAG.pattern}| {{0,4}}\d{{1,5}}:$)", SRUN.source)
"""The same where not all lines have it: a stalled rank of Horovod's lists is content there."""

PALS = PrefixForm(
    "mpiexec --label of Cray PALS",
    r"(?P<host>[\w.-]{1,253}) (?P<rank>\d{1,6}):(?: |$)",
    "man mpiexec of HPE Cray PALS (--label)",
)
COMPOSE = PrefixForm(
    "docker compose",
    r"(?P<host>[A-Za-z0-9][\w.-]{0,100}) +\|(?: |$)",
    "docker/compose cmd/formatter/logs.go",
)
STERN = PrefixForm(
    "stern",
    r"(?P<host>[a-z0-9][a-z0-9.-]{0,252}) (?:[a-z0-9][a-z0-9-]{0,62})(?: |$)",
    "stern/stern README (default template)",
)
GITHUB = PrefixForm(
    "gh run view --log",
    rf"[^\t]{{1,200}}\t[^\t]{{1,200}}\t(?=\ufeff?{_STAMP}{_END})",
    "cli.github.com/manual/gh_run_view",
)
QUOTED = PrefixForm("quoted text", r"(?:> ?)+", "RFC 3676, section 4.5")
NUMBERED = (
    PrefixForm("cat -n, nl", r"(?=[ \d]{6,9}\t) *(?P<number>\d+)\t|^ {6,7}$", "POSIX nl; man cat"),
    PrefixForm("less -N", r"(?=[ \d]{7}(?: |$)) *(?P<number>\d+)(?: |$)", "man less (-N)"),
    PrefixForm("grep -n", r"(?P<number>\d+):(?! \S)", "man grep (-n)"),
    PrefixForm("bat", r" *(?P<number>\d+) +[│|] ?", "sharkdp/bat README"),
)
INDENTED = PrefixForm("an indented block", r"(?: {4}|\t)", "CommonMark, section 4.4")
