import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.rundir.masking import mask_command, mask_text, mask_value, recorded_environment

SECRET = "Zq7wX2kLpR9vT4"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("HOROVOD_SECRET_KEY", "abc", "***"),
        ("SLURM_JWT", "abc", "***"),
        ("MYSQL_PWD", "abc", "***"),
        ("DB_PASS", "abc", "***"),
        ("trainer.logger.api_key", "abc", "***"),
        ("HOROVOD_CYCLE_TIME", "1", "1"),
        ("HOROVOD_SECRET_KEY", "", ""),
        ("NCCL_X", "http://user:pw@host/x", "http://***@host/x"),
        ("PWD", "/home/me", "/home/me"),
        ("backward_passes_per_step", "two", "two"),
        ("tokenizer", "gpt2", "gpt2"),
        ("max_tokens", "4096", "4096"),
        ("num_key_value_heads", "eight", "eight"),
        ("author", "Ada", "Ada"),
        ("use_auth", "true", "true"),
    ],
)
def test_values(name: str, value: str, expected: str) -> None:
    assert mask_value(name, value) == expected


def test_only_what_shapes_a_job_is_recorded() -> None:
    environment = {
        "HOME": "/h",
        "NCCL_DEBUG": "INFO",
        "HOROVOD_SECRET_KEY": "s",
        "OMP_X": "1",
        "SLURM_JWT": "s",
        "SLURM_CONF_SERVER": "controller",
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_STEP_NODELIST": "n[1-2]",
    }
    assert recorded_environment(environment) == {
        "HOROVOD_SECRET_KEY": "***",
        "NCCL_DEBUG": "INFO",
        "OMP_X": "1",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_STEP_NODELIST": "n[1-2]",
    }


def test_commands() -> None:
    command = ["run", "API_KEY=abc", "--token", "abc", "--password=abc", "--np", "2", "A=b"]
    assert mask_command(command) == [
        *("run", "API_KEY=***", "--token", "***", "--password=***", "--np", "2", "A=b"),
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["--api.key=X1234", "--lr", "0.1"], ["--api.key=***", "--lr", "0.1"]),
        (["https://h/x?access_token=X1234&a=b"], ["https://h/x?access_token=***&a=b"]),
        (["a.b.api_key=X1234", "model=vgg"], ["a.b.api_key=***", "model=vgg"]),
        (["++a.api_key=X1234"], ["++a.api_key=***"]),
        (["--env=WANDB_API_KEY=X1234"], ["--env=WANDB_API_KEY=***"]),
        (["--env", "WANDB_API_KEY=X1234"], ["--env", "WANDB_API_KEY=***"]),
        (["-x", "HF_TOKEN=X1234", "train.py"], ["-x", "HF_TOKEN=***", "train.py"]),
        (["--header", "Authorization: Bearer X1234"], ["--header", "Authorization: Bearer ***"]),
        (["--header=Authorization: Bearer X1234"], ["--header=Authorization: Bearer ***"]),
        (["-token", "X1234"], ["-token", "***"]),
        (['{"api_key": "X1234", "lr": 0.1}'], ['{"api_key": "***", "lr": 0.1}']),
        (["--config", "{'password':'X 1234'}"], ["--config", "{'password':'***'}"]),
        (
            ["sh", "-c", "export TOKEN=X1234; python t.py --api-key X1234 --lr 1"],
            ["sh", "-c", "export TOKEN=***; python t.py --api-key *** --lr 1"],
        ),
        (["sh", "-c", "A=b TOKEN='X 1234' p.py"], ["sh", "-c", "A=b TOKEN='***' p.py"]),
        # A passphrase may have blanks: what begins as an assignment is masked to its end.
        (["PASSWORD=open sesame"], ["PASSWORD=***"]),
        (["curl", "-H", "X-Api-Key: X1234"], ["curl", "-H", "X-Api-Key: ***"]),
        (['{"Authorization": "Bearer X1234"}'], ['{"Authorization": "Bearer ***"}']),
        (["hf_" + "a1" * 12], ["***"]),
        (["ghp_" + "a1" * 12], ["***"]),
        (["AKIA" + "A1" * 8], ["***"]),
        (["git", "https://u:p/w@h/x.git"], ["git", "https://***@h/x.git"]),
        (["https://u@h/x"], ["https://***@h/x"]),
        (["http://h:80/x?a=b"], ["http://h:80/x?a=b"]),
        # What only looks like a secret, or is no value of one.
        (["--use-auth", "--lr", "0.1"], ["--use-auth", "--lr", "0.1"]),
        (["--num-keys", "8"], ["--num-keys", "8"]),
        (["--tokenizer", "gpt2"], ["--tokenizer", "gpt2"]),
        (["monkey.py", "--data", "/keys"], ["monkey.py", "--data", "/keys"]),
        (["basic", "training"], ["basic", "training"]),
    ],
)
def test_forms_of_secrets(command: list[str], expected: list[str]) -> None:
    assert mask_command(command) == expected


@given(
    name=st.sampled_from(["TOKEN", "api_key", "db.password", "Auth-Secret"]),
    form=st.sampled_from(
        [
            "{name}={value}",
            "--{name}={value}",
            "export {name}={value} && x",
            "http://h/?a=1&{name}={value}",
            "x --{name} {value} y",
            '--set={{"{name}": "{value}"}}',
        ]
    ),
)
def test_no_form_leaves_the_secret(name: str, form: str) -> None:
    assert SECRET not in mask_text(form.format(name=name, value=SECRET))


def test_masking_twice_changes_nothing() -> None:
    text = json.dumps({"token": SECRET, "url": f"https://u:{SECRET}@h/?key={SECRET}"})
    assert mask_text(mask_text(text)) == mask_text(text)


@pytest.mark.parametrize(
    "piece", ["a", "a.", "a-", "=", "://", "--a ", "a:b@", "eyJ", '"', "\\", "://u:"]
)
def test_a_long_argument_takes_no_time_of_its_square(piece: str) -> None:
    short, long = (_seconds(piece * number) for number in (2_000, 20_000))
    assert long < 40 * short + 0.2


def _seconds(text: str) -> float:
    began = time.process_time()
    mask_text(text)
    return time.process_time() - began
