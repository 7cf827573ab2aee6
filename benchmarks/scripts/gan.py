"""A generator and a discriminator with an optimizer each.

Faults: data, forward and backward (of the discriminator, which runs twice a step), pause.
"""

import argparse

import horovod.torch as hvd
import torch
from torch.nn import functional

from benchmarks.scripts.slowdown import Layer, add_fault_option, slow_down, work


def distributed(model: torch.nn.Module, name: str) -> "hvd.DistributedOptimizer":
    """The optimizer of one of the two models."""
    names = [(f"{name}.{parameter}", value) for parameter, value in model.named_parameters()]
    adam = torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.5, 0.999))
    return hvd.DistributedOptimizer(adam, named_parameters=names)


def main() -> None:
    """Let them play."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--latent", type=int, default=8)
    add_fault_option(parser)
    opt = parser.parse_args()
    hvd.init()
    torch.manual_seed(8)
    torch.set_num_threads(1)
    generator = torch.nn.Sequential(
        Layer((opt.latent, 32), (5, 9)), torch.nn.ReLU(), Layer((32, 20), (4, 8))
    )
    # Fakes and real images together, and then the fakes again for the generator.
    discriminator = Layer((20, 1), (6, 10), opt.fault, passes_per_step=2)
    for model in (generator, discriminator):
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer_d = distributed(discriminator, "discriminator")
    optimizer_g = distributed(generator, "generator")
    for step in range(400):
        work(0.5)
        slow_down(opt.fault, "data", step)
        real = torch.randn(8, 20)
        fake = generator(torch.randn(8, opt.latent))

        optimizer_d.zero_grad()
        scores = discriminator(torch.cat([real, fake.detach()]))
        targets = torch.cat([torch.ones(8, 1), torch.zeros(8, 1)])
        functional.binary_cross_entropy_with_logits(scores, targets).backward()
        optimizer_d.step()

        optimizer_g.zero_grad()
        for parameter in discriminator.parameters():
            parameter.requires_grad_(False)
        fooled = functional.binary_cross_entropy_with_logits(discriminator(fake), torch.ones(8, 1))
        fooled.backward()
        for parameter in discriminator.parameters():
            parameter.requires_grad_(True)
        optimizer_g.step()
        slow_down(opt.fault, "pause", step)


if __name__ == "__main__":
    main()
