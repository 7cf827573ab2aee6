"""Batches to train on: one random batch made once, scikit-learn's digits, or MNIST's IDX files."""

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from hvdprof.bench_models.registry import BenchModel
from hvdprof.errors import MissingExtraError, UnreadableInputError

_IMAGES_MAGIC = 2051
_LABELS_MAGIC = 2049
_IMAGE_FILES = ("train-images-idx3-ubyte", "train-images.idx3-ubyte")
_LABEL_FILES = ("train-labels-idx1-ubyte", "train-labels.idx1-ubyte")

_RANKS_BELOW = 1_000_003


@dataclass(frozen=True, slots=True)
class DigitSet:
    """Grey images (count, height, width) as 0..1, and their labels 0..9."""

    images: Tensor
    labels: Tensor


class DigitBatches:
    """Batches of a rank's own shard of a digit set, scaled to what the model takes.

    Every epoch all ranks shuffle the set alike and each takes every ``size``-th image, all the
    same number; a batch that the shard cannot fill continues with the next epoch. Images are
    brought to mean 0 and deviation 1 over the set, and scaled as part of each batch.
    """

    def __init__(
        self, digits: DigitSet, model: BenchModel, batch_size: int, image_size: int, device: str
    ) -> None:
        mean, deviation = digits.images.mean(), digits.images.std()
        self._images = (digits.images - mean) / deviation
        self._labels = digits.labels
        self._model = model
        self._batch_size = batch_size
        self._image_size = image_size
        self._device = device
        self._rank, self._size, self._seed = 0, 1, 0
        self._epoch = 0
        self._ahead = torch.empty(0, dtype=torch.int64)

    def for_rank(self, rank: int, size: int, seed: int) -> "DigitBatches":
        """This object, with the shard of a rank.

        Raises:
            UnreadableInputError: There are fewer images than ranks.
        """
        if len(self._labels) < size:
            raise UnreadableInputError(f"{len(self._labels)} images are too few for {size} ranks.")
        self._rank, self._size, self._seed = rank, size, seed
        return self

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """The next images and labels."""
        while len(self._ahead) < self._batch_size:
            self._ahead = torch.cat([self._ahead, self._next_epoch()])
        count = self._batch_size
        chosen, self._ahead = self._ahead[:count], self._ahead[count:]
        images = self._images[chosen].unsqueeze(1).to(self._device)
        edges = (self._image_size, self._image_size)
        scaled = F.interpolate(images, size=edges, mode="bilinear", align_corners=False)
        colours = scaled.expand(-1, self._model.in_channels, -1, -1).contiguous()
        return colours, self._labels[chosen].to(self._device)

    def _next_epoch(self) -> Tensor:
        generator = torch.Generator().manual_seed(self._seed + self._epoch)
        self._epoch += 1
        order = torch.randperm(len(self._labels), generator=generator)
        return order[self._rank :: self._size][: len(order) // self._size]


def bundled_digits() -> DigitSet:
    """The 1,797 digits of 8x8 pixels that come with scikit-learn.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtraError("The digits data set", extra="bench") from error
    bundle = load_digits()
    images = torch.tensor(bundle.images, dtype=torch.float32) / 16
    return DigitSet(images, torch.tensor(bundle.target, dtype=torch.int64))


def idx_digits(folder: Path) -> DigitSet:
    """The training images of MNIST from its IDX files, plain or gzipped.

    Raises:
        UnreadableInputError: A file is missing or is not what its name says.
    """
    image_shape, pixels = _read_idx(_existing(folder, _IMAGE_FILES), _IMAGES_MAGIC, 3)
    label_shape, labels = _read_idx(_existing(folder, _LABEL_FILES), _LABELS_MAGIC, 1)
    if image_shape[0] != label_shape[0]:
        raise UnreadableInputError(
            f"{folder} holds {image_shape[0]} images but {label_shape[0]} labels."
        )
    if int(labels.max()) > 9:
        raise UnreadableInputError(f"{folder} holds labels up to {int(labels.max())}, not 0 to 9.")
    images = pixels.reshape(image_shape).to(torch.float32) / 255
    return DigitSet(images, labels.to(torch.int64))


def _existing(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    raise UnreadableInputError(
        f"{folder} holds no {names[0]}, plain or as .gz.",
        hint="Give the folder with the four files of MNIST.",
    )


def _read_idx(path: Path, magic: int, num_dimensions: int) -> tuple[tuple[int, ...], Tensor]:
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableInputError(f"Could not read {path}: {error}.") from error
    header = struct.Struct(f">{1 + num_dimensions}I")
    if len(data) < header.size:
        raise UnreadableInputError(f"{path} is too short for an IDX file.")
    number, *shape = header.unpack_from(data)
    if number != magic:
        raise UnreadableInputError(f"{path} begins with the number {number}, not {magic}.")
    if len(data) != header.size + math.prod(shape) or not all(shape):
        raise UnreadableInputError(
            f"{path} says {'x'.join(map(str, shape))} but holds {len(data) - header.size} bytes."
        )
    values = torch.frombuffer(bytearray(data[header.size :]), dtype=torch.uint8)
    return tuple(shape), values


class SyntheticBatches:
    """The same random batch again and again, on the device from the start.

    The batch follows from ``seed`` and ``rank`` alone; every rank has another one.
    """

    def __init__(
        self, model: BenchModel, batch_size: int, image_size: int, *, seed: int, rank: int
    ) -> None:
        generator = torch.Generator().manual_seed(seed * _RANKS_BELOW + rank)
        shape = (batch_size, model.in_channels, image_size, image_size)
        self._images = torch.randn(shape, generator=generator)
        self._labels = torch.randint(model.num_classes, (batch_size,), generator=generator)

    def to(self, device: str) -> "SyntheticBatches":
        """This object, with its batch moved to a device."""
        self._images = self._images.to(device)
        self._labels = self._labels.to(device)
        return self

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """The batch."""
        return self._images, self._labels
