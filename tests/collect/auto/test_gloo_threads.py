"""Threads of Gloo at the end of a process, as /proc shows them."""

from hvdprof.collect.auto.distributed_recording import GLOO_THREAD, LONGEST_REST_S, wait_for_gloo


class Process:
    """A process with a thread of its own name, which computes, and threads of Gloo."""

    def __init__(self, folder, *states):
        self.folder, self.now, self.num_sleeps = folder, 0.0, 0
        self.write(1, "python (train)", "R")
        for number, state in enumerate(states, start=2):
            self.write(number, GLOO_THREAD, state)

    def write(self, number, name, state):
        (self.folder / str(number)).mkdir(exist_ok=True)
        (self.folder / str(number) / "stat").write_text(f"{number} ({name}) {state} 1 1\n")

    def sleep(self, seconds):
        self.num_sleeps += 1
        self.now += seconds

    def end(self):
        wait_for_gloo(self.folder, self.sleep, lambda: self.now)


def test_a_process_without_gloo_does_not_wait(tmp_path):
    process = Process(tmp_path)
    process.end()
    assert process.num_sleeps == 0


def test_threads_at_rest_are_looked_at_three_times(tmp_path):
    process = Process(tmp_path, "S", "S")
    process.end()
    assert process.num_sleeps == 3


def test_a_thread_that_is_behind_gets_its_time(tmp_path):
    process = Process(tmp_path, "S", "R")
    before = process.sleep

    def sleep(seconds):
        before(seconds)
        if process.num_sleeps == 10:
            process.write(3, GLOO_THREAD, "S")

    process.sleep = sleep
    process.end()
    assert process.num_sleeps == 13


def test_a_thread_that_never_rests_does_not_keep_the_process(tmp_path):
    process = Process(tmp_path, "R")
    process.end()
    assert LONGEST_REST_S <= process.now < LONGEST_REST_S + 0.1


def test_a_system_without_proc_waits_for_nothing(tmp_path):
    process = Process(tmp_path, "R")
    process.folder = tmp_path / "absent"
    process.end()
    assert process.num_sleeps == 0
