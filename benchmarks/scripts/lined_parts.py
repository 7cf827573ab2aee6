"""The parts of ``lined.py`` that hold its bug, each on a line of its own with a mark."""

import time

import numpy as np
import torch
from torch import Tensor

MATRIX = np.random.default_rng(0).normal(size=(256, 256))


def transform(sample: Tensor, bug_s: float) -> Tensor:
    """Prepare a sample; slowly with the bug."""
    if bug_s:
        time.sleep(bug_s)  # mark: transform
    return sample * 2.0


def normalize(bug_s: float) -> None:
    """Work of a library: products of matrices, as long as the bug takes."""
    end_s = time.perf_counter() + bug_s
    while bug_s and time.perf_counter() < end_s:
        np.linalg.svd(MATRIX[:96, :96])  # mark: numpy


def count(bug_s: float) -> None:
    """A call into C that holds the interpreter's lock, as long as the bug takes."""
    end_s = time.perf_counter() + bug_s
    while bug_s and time.perf_counter() < end_s:
        sum(range(400_000))  # mark: c-call


def tokens(bug_s: float) -> int:
    """A loop in Python, as long as the bug takes."""
    number, end_s = 0, time.perf_counter() + bug_s
    while bug_s and time.perf_counter() < end_s: number += 1  # noqa: E701  # mark: loop  # fmt: skip
    return number


def hook(gradient: Tensor, bug_s: float) -> Tensor:
    """What a hook of a gradient does."""
    if bug_s:
        time.sleep(bug_s)  # mark: hook
    return gradient


def save(model: torch.nn.Module, bug_s: float) -> int:
    """Write a checkpoint; slowly with the bug."""
    number = sum(parameter.numel() for parameter in model.parameters())
    if bug_s:
        time.sleep(bug_s)  # mark: save
    return number
