"""Inception v3 (arXiv:1512.00567) without its auxiliary classifier."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ConvUnit(nn.Module):
    """Convolution without bias, batch normalisation, ReLU."""

    def __init__(self, in_channels: int, out_channels: int, **convolution: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **convolution)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        """The activated features."""
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Branches(nn.Module):
    """Branches that read the same input; their outputs lie side by side as channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of all branches."""
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class InceptionV3(nn.Module):
    """A stem, eleven blocks of branches, and one linear layer."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            ConvUnit(3, 32, kernel_size=3, stride=2),
            ConvUnit(32, 32, kernel_size=3),
            ConvUnit(32, 64, kernel_size=3, padding=1),
            nn.MaxPool2d(kernel_size=3, stride=2),
            ConvUnit(64, 80, kernel_size=1),
            ConvUnit(80, 192, kernel_size=3),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.blocks = nn.Sequential(
            _block_35(192, pool_channels=32),
            _block_35(256, pool_channels=64),
            _block_35(288, pool_channels=64),
            _reduction_to_17(288),
            _block_17(768, 128),
            _block_17(768, 160),
            _block_17(768, 160),
            _block_17(768, 192),
            _reduction_to_8(768),
            _block_8(1280),
            _block_8(2048),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout()
        self.fc = nn.Linear(2048, num_classes)
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        x = self.avgpool(self.blocks(self.stem(images)))
        logits: Tensor = self.fc(torch.flatten(self.dropout(x), 1))
        return logits


def inception_v3(num_classes: int) -> nn.Module:
    """Inception v3, 23.83 million parameters with 1000 classes."""
    return InceptionV3(num_classes)


def _block_35(in_channels: int, *, pool_channels: int) -> nn.Module:
    return Branches(
        ConvUnit(in_channels, 64, kernel_size=1),
        nn.Sequential(
            ConvUnit(in_channels, 48, kernel_size=1), ConvUnit(48, 64, kernel_size=5, padding=2)
        ),
        nn.Sequential(
            ConvUnit(in_channels, 64, kernel_size=1),
            ConvUnit(64, 96, kernel_size=3, padding=1),
            ConvUnit(96, 96, kernel_size=3, padding=1),
        ),
        _pooled(in_channels, pool_channels),
    )


def _reduction_to_17(in_channels: int) -> nn.Module:
    return Branches(
        ConvUnit(in_channels, 384, kernel_size=3, stride=2),
        nn.Sequential(
            ConvUnit(in_channels, 64, kernel_size=1),
            ConvUnit(64, 96, kernel_size=3, padding=1),
            ConvUnit(96, 96, kernel_size=3, stride=2),
        ),
        nn.MaxPool2d(kernel_size=3, stride=2),
    )


def _block_17(in_channels: int, channels: int) -> nn.Module:
    return Branches(
        ConvUnit(in_channels, 192, kernel_size=1),
        nn.Sequential(
            ConvUnit(in_channels, channels, kernel_size=1),
            _row(channels, channels),
            _column(channels, 192),
        ),
        nn.Sequential(
            ConvUnit(in_channels, channels, kernel_size=1),
            _column(channels, channels),
            _row(channels, channels),
            _column(channels, channels),
            _row(channels, 192),
        ),
        _pooled(in_channels, 192),
    )


def _reduction_to_8(in_channels: int) -> nn.Module:
    return Branches(
        nn.Sequential(
            ConvUnit(in_channels, 192, kernel_size=1), ConvUnit(192, 320, kernel_size=3, stride=2)
        ),
        nn.Sequential(
            ConvUnit(in_channels, 192, kernel_size=1),
            _row(192, 192),
            _column(192, 192),
            ConvUnit(192, 192, kernel_size=3, stride=2),
        ),
        nn.MaxPool2d(kernel_size=3, stride=2),
    )


def _block_8(in_channels: int) -> nn.Module:
    return Branches(
        ConvUnit(in_channels, 320, kernel_size=1),
        nn.Sequential(ConvUnit(in_channels, 384, kernel_size=1), _row_beside_column()),
        nn.Sequential(
            ConvUnit(in_channels, 448, kernel_size=1),
            ConvUnit(448, 384, kernel_size=3, padding=1),
            _row_beside_column(),
        ),
        _pooled(in_channels, 192),
    )


def _row(in_channels: int, out_channels: int) -> nn.Module:
    return ConvUnit(in_channels, out_channels, kernel_size=(1, 7), padding=(0, 3))


def _column(in_channels: int, out_channels: int) -> nn.Module:
    return ConvUnit(in_channels, out_channels, kernel_size=(7, 1), padding=(3, 0))


def _row_beside_column() -> nn.Module:
    return Branches(
        ConvUnit(384, 384, kernel_size=(1, 3), padding=(0, 1)),
        ConvUnit(384, 384, kernel_size=(3, 1), padding=(1, 0)),
    )


def _pooled(in_channels: int, out_channels: int) -> nn.Module:
    return nn.Sequential(
        nn.AvgPool2d(kernel_size=3, stride=1, padding=1),
        ConvUnit(in_channels, out_channels, kernel_size=1),
    )


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.trunc_normal_(module.weight, mean=0.0, std=0.1, a=-2, b=2)
