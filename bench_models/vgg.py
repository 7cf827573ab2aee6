"""VGG-16 without batch normalisation (arXiv:1409.1556, configuration D)."""

import torch
from torch import Tensor, nn

_CHANNELS_OF_STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class Vgg16(nn.Module):
    """Thirteen 3x3 convolutions in five stages, and three linear layers with most of the weight."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        in_channels = 3
        for stage in _CHANNELS_OF_STAGES:
            for channels in stage:
                layers.append(nn.Conv2d(in_channels, channels, kernel_size=3, padding=1))
                layers.append(nn.ReLU(inplace=True))
                in_channels = channels
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, num_classes),
        )
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        x = torch.flatten(self.avgpool(self.features(images)), 1)
        logits: Tensor = self.classifier(x)
        return logits


def vgg16(num_classes: int) -> nn.Module:
    """VGG-16, 138.36 million parameters with 1000 classes."""
    return Vgg16(num_classes)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, 0, 0.01)
    if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
