"""A script of Lightning, Accelerate or the Trainer of Transformers, as users of these write it.

The first argument names the framework. Layers and batches are those of ``ddp_script``: they sleep
instead of computing, and the bug of rank 1 is one of its options.
"""

import argparse
import os
import tempfile

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from benchmarks.scripts.fault import Fault
from tests.builders.ddp_script import BATCH, Net, Samples, Work

NUM_VALIDATION = 2
"""Batches per rank of the validation."""


def with_lightning(net: Net, train: Dataset, check: Dataset, accumulate: int) -> None:
    """A LightningModule and a Lightning Trainer, which validates after its epoch."""
    import lightning

    class Module(lightning.LightningModule):
        """The network with its loss and its optimizer."""

        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def training_step(self, batch, index):
            """The loss of a batch, which is logged."""
            inputs, labels = batch
            loss = functional.cross_entropy(self.net(inputs), labels)
            self.log("loss", loss)
            return loss

        def validation_step(self, batch, index):
            """The loss of a batch of all ranks."""
            inputs, labels = batch
            loss = functional.cross_entropy(self.net(inputs), labels)
            self.log("validation", loss, sync_dist=True)

        def configure_optimizers(self):
            """The optimizer, and its schedule."""
            optimizer = torch.optim.AdamW(self.parameters())
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 10)]

    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        strategy="ddp",
        max_epochs=1,
        accumulate_grad_batches=accumulate,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Module(), DataLoader(train, BATCH), DataLoader(check, BATCH))


def with_accelerate(net: Net, train: Dataset, check: Dataset, accumulate: int) -> None:
    """A loop of the user's own around an Accelerator, which evaluates behind its epoch."""
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    optimizer = torch.optim.AdamW(net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    model, optimizer, loader, checks, schedule = accelerator.prepare(
        net, optimizer, DataLoader(train, BATCH), DataLoader(check, BATCH), schedule
    )
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    for inputs, labels in checks:
        with torch.no_grad():
            accelerator.gather_for_metrics((model(inputs).argmax(-1), labels))
    accelerator.end_training()


class Named(Dataset):
    """Samples by name, as the models of Transformers take them."""

    def __init__(self, samples: Dataset) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, object]:
        inputs, label = self.samples[index]
        return {"inputs": inputs, "labels": label}


def with_trainer(net: Net, train: Dataset, check: Dataset, accumulate: int) -> None:
    """A model of Transformers and its Trainer, which evaluates behind its epoch."""
    import transformers

    class Model(transformers.PreTrainedModel):
        """The network, whose forward pass returns the loss too."""

        config_class = transformers.PretrainedConfig

        def __init__(self, config) -> None:
            super().__init__(config)
            self.net = net
            self.post_init()

        def _init_weights(self, module) -> None:
            """The weights stay."""

        def forward(self, inputs, labels=None):
            """Loss and logits."""
            logits = self.net(inputs)
            return {"loss": functional.cross_entropy(logits, labels), "logits": logits}

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            num_train_epochs=1,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            gradient_accumulation_steps=accumulate,
            logging_steps=10,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        model = Model(transformers.PretrainedConfig())
        own, checks = Named(train), Named(check)
        transformers.Trainer(model, arguments, train_dataset=own, eval_dataset=checks).train()


KINDS = {"lightning": with_lightning, "accelerate": with_accelerate, "trainer": with_trainer}


def main() -> None:
    """Train one epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("framework", choices=tuple(KINDS))
    parser.add_argument("--fault", type=Fault.parse, default=Fault())
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--accumulate", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    work, num_ranks = Work(args.fault), int(os.environ["WORLD_SIZE"])
    train = Samples(work, args.updates * args.accumulate * BATCH * num_ranks)
    check = Samples(work, NUM_VALIDATION * BATCH * num_ranks)
    KINDS[args.framework](Net(work), train, check, args.accumulate)


if __name__ == "__main__":
    main()
