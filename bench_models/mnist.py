"""The small convolutional network of Horovod's MNIST tutorial."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MnistNet(nn.Module):
    """Two convolutions and two linear layers; returns log-probabilities of the classes."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Log-probabilities, one row an image."""
        x = F.relu(F.max_pool2d(self.conv1(images), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.dropout(x, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


def mnist(num_classes: int) -> nn.Module:
    """The network of the tutorial, 21,840 parameters with 10 classes."""
    return MnistNet(num_classes)
