import gzip
import struct

import pytest
import torch

from hvdprof.bench_models.digit_data import (
    DigitBatches,
    DigitSet,
    SyntheticBatches,
    bundled_digits,
    idx_digits,
)
from hvdprof.bench_models.registry import model_named
from hvdprof.errors import UnreadableInputError

pytestmark = pytest.mark.torch

MNIST = model_named("mnist")
RESNET = model_named("resnet18")


def test_synthetic_batch_follows_from_seed_and_rank():
    def images(seed: int, rank: int):
        return SyntheticBatches(MNIST, 4, 28, seed=seed, rank=rank).next_batch()[0]

    assert torch.equal(images(1, 0), images(1, 0))
    assert not torch.equal(images(1, 0), images(1, 1))
    assert not torch.equal(images(1, 0), images(2, 0))


def test_synthetic_batch_is_always_the_same_object():
    batches = SyntheticBatches(RESNET, 2, 32, seed=1, rank=0).to("cpu")
    (images, labels), (again, _) = batches.next_batch(), batches.next_batch()
    assert images is again
    assert images.shape == (2, 3, 32, 32)
    assert labels.dtype == torch.int64


def numbered(count: int) -> DigitSet:
    """Images whose brightness and label are their own number."""
    numbers = torch.arange(count)
    return DigitSet(numbers[:, None, None].expand(count, 8, 8).to(torch.float32), numbers)


def labels_of_an_epoch(rank: int, size: int, count: int = 12, seed: int = 5) -> list[int]:
    batches = DigitBatches(numbered(count), MNIST, 1, 28, "cpu").for_rank(rank, size, seed)
    return [int(batches.next_batch()[1]) for _ in range(count // size)]


def test_shards_are_disjoint_and_of_equal_size():
    first, second = labels_of_an_epoch(0, 2), labels_of_an_epoch(1, 2)
    assert sorted(first + second) == list(range(12))


def test_uneven_set_leaves_the_rest_out():
    shards = [labels_of_an_epoch(rank, 3, count=11) for rank in range(3)]
    assert [len(shard) for shard in shards] == [3, 3, 3]
    assert len({label for shard in shards for label in shard}) == 9


def test_epochs_are_shuffled_anew_and_a_batch_may_span_them():
    batches = DigitBatches(numbered(10), MNIST, 25, 28, "cpu").for_rank(0, 1, 5)
    labels = batches.next_batch()[1].tolist()
    assert sorted(labels[:10]) == sorted(labels[10:20]) == list(range(10))
    assert labels[:10] != labels[10:20]


def test_images_are_scaled_to_the_model_and_stay_with_their_labels():
    images, labels = DigitBatches(numbered(9), RESNET, 9, 32, "cpu").for_rank(0, 1, 0).next_batch()
    assert images.shape == (9, 3, 32, 32)
    brightness = images.mean(dim=(1, 2, 3))
    assert torch.equal(brightness.argsort(), labels.argsort())


def test_more_ranks_than_images_is_refused():
    with pytest.raises(UnreadableInputError, match="too few for 3 ranks"):
        DigitBatches(numbered(2), MNIST, 1, 28, "cpu").for_rank(0, 3, 0)


def test_bundled_digits():
    digits = bundled_digits()
    assert digits.images.shape == (1797, 8, 8)
    assert float(digits.images.min()) == 0.0
    assert float(digits.images.max()) == 1.0
    assert sorted(set(digits.labels.tolist())) == list(range(10))


def write_idx(path, magic: int, shape: tuple[int, ...], data: bytes) -> None:
    content = struct.pack(f">{1 + len(shape)}I", magic, *shape) + data
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_set(folder, suffix: str = "", num_labels: int = 2) -> None:
    pixels = bytes(range(0, 240, 10))
    write_idx(folder / f"train-images-idx3-ubyte{suffix}", 2051, (2, 4, 3), pixels)
    labels = bytes(range(num_labels))
    write_idx(folder / f"train-labels-idx1-ubyte{suffix}", 2049, (num_labels,), labels)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files(tmp_path, suffix):
    write_set(tmp_path, suffix)
    digits = idx_digits(tmp_path)
    assert digits.images.shape == (2, 4, 3)
    assert float(digits.images[1, 0, 0]) == pytest.approx(120 / 255)
    assert digits.labels.tolist() == [0, 1]


def test_idx_folder_without_files(tmp_path):
    with pytest.raises(UnreadableInputError, match="holds no train-images-idx3-ubyte"):
        idx_digits(tmp_path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"\0\0"), "too short"),
        (lambda path: write_idx(path, 2049, (2, 4, 3), bytes(24)), "number 2049, not 2051"),
        (lambda path: write_idx(path, 2051, (2, 4, 3), bytes(23)), "2x4x3 but holds 23 bytes"),
        (lambda path: write_idx(path, 2051, (0, 4, 3), b""), "0x4x3 but holds 0 bytes"),
    ],
)
def test_damaged_idx_file(tmp_path, damage, message):
    write_set(tmp_path)
    damage(tmp_path / "train-images-idx3-ubyte")
    with pytest.raises(UnreadableInputError, match=message):
        idx_digits(tmp_path)


def test_file_that_is_gzip_by_name_only(tmp_path):
    write_set(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte"
    path.rename(path.with_suffix(".gz"))
    with pytest.raises(UnreadableInputError, match="Could not read"):
        idx_digits(tmp_path)


def test_labels_must_match_the_images(tmp_path):
    write_set(tmp_path, num_labels=3)
    with pytest.raises(UnreadableInputError, match="2 images but 3 labels"):
        idx_digits(tmp_path)
