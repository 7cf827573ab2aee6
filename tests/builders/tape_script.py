"""A training loop of TensorFlow's own for Horovod, without a word of hvdprof."""

import argparse
import time

import horovod.tensorflow as hvd
import tensorflow as tf

SAMPLES = 512
BATCH = 16


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--fail-at", type=int, default=-1)
    parser.add_argument("--hang-at", type=int, default=-1)
    options = parser.parse_args()
    hvd.init()
    tf.random.set_seed(hvd.rank())
    data = (tf.random.normal((SAMPLES, 32)), tf.random.uniform((SAMPLES,), 0, 4, tf.int64))
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(BATCH)
    dense = tf.keras.layers.Dense
    model = tf.keras.Sequential([dense(256, activation="relu"), dense(4)])
    criterion = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.SGD(0.01)

    def train(images: tf.Tensor, labels: tf.Tensor, is_first: bool) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = criterion(labels, model(images, training=True))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        if is_first:
            hvd.broadcast_variables(model.variables, root_rank=0)
        return loss

    train_step = train if options.eager else tf.function(train)
    num_steps = 0
    for _ in range(options.epochs):
        for images, labels in dataset.take(SAMPLES // BATCH // hvd.size()):
            loss = train_step(images, labels, num_steps == 0)
            num_steps += 1
            if num_steps == options.fail_at and hvd.rank() == 1:
                raise RuntimeError("on purpose")
            if num_steps == options.hang_at and hvd.rank() == 1:
                time.sleep(600)
        hvd.allreduce(loss)
        if options.evaluate:
            for images, _ in dataset:
                model(images, training=False)
    if hvd.rank() == 0:
        print(f"{num_steps} steps, loss {float(loss)}")


if __name__ == "__main__":
    main()
