"""``horovodrun --gloo``: Horovod's own launcher."""

from dataclasses import dataclass

from hvdprof.launch.job import Job


@dataclass(frozen=True, slots=True)
class HorovodrunGloo:
    """Starts ranks by ``horovodrun --gloo``, over ssh where hosts are named.

    It hands its whole environment on to every rank by itself.
    """

    horovodrun: str

    def command(self, job: Job) -> list[str]:
        """``horovodrun --gloo -np N [-H HOSTS] PROGRAM``."""
        hosts = ["-H", job.hosts] if job.hosts else []
        return [self.horovodrun, "--gloo", "-np", str(job.size), *hosts, *job.program]
