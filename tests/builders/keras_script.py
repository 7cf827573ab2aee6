"""A Keras script for Horovod as users write them, without a word of hvdprof."""

import argparse

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from horovod.tensorflow import allgather_object

SAMPLES = 1000
BATCH = 16


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--data", choices=("arrays", "dataset"), default="arrays")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--per-call", type=int, default=1)
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--schedule", action="store_true")
    options = parser.parse_args()
    hvd.init()
    tf.random.set_seed(0)
    random = np.random.default_rng(hvd.rank())
    images = random.normal(size=(SAMPLES // hvd.size(), 32)).astype("float32")
    labels = random.integers(0, 4, len(images))
    layers = tf.keras.layers
    # Without weights, and longer than a moment that TensorFlow reports late.
    longer = [layers.RepeatVector(400), layers.GlobalAveragePooling1D()]
    model = tf.keras.Sequential([layers.Dense(256, activation="relu"), *longer, layers.Dense(4)])
    rate = 0.01 * hvd.size()
    optimizer = hvd.DistributedOptimizer(
        tf.keras.optimizers.SGD(rate), backward_passes_per_step=options.accumulate
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        optimizer=optimizer,
        loss=loss,
        metrics=["accuracy"],
        run_eagerly=options.eager,
        steps_per_execution=options.per_call,
    )
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
    ]
    if options.schedule:
        callbacks += [
            hvd.callbacks.LearningRateWarmupCallback(initial_lr=rate, warmup_epochs=1),
            hvd.callbacks.LearningRateScheduleCallback(rate, lambda epoch: 0.5, start_epoch=1),
        ]
    given = {"x": images, "y": labels, "batch_size": BATCH}
    if options.data == "dataset":
        batches = tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH)
        given = {"x": batches}
    validation = (images, labels) if options.validate else None
    history = model.fit(
        **given,
        epochs=options.epochs,
        callbacks=callbacks,
        validation_data=validation,
        verbose=2 if hvd.rank() == 0 else 0,
    )
    if hvd.rank() == 0:
        print("loss at the end", history.history["loss"][-1])
        print("learning rates", history.history.get("lr"))
    first = allgather_object([weight.tolist() for weight in model.get_weights()])
    print("the weights are the same", all(other == first[0] for other in first))


if __name__ == "__main__":
    main()
