"""A Keras script for a strategy of ``tf.distribute``, without a word of hvdprof."""

import numpy as np
import tensorflow as tf


def main() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    random = np.random.default_rng(0)
    images = random.normal(size=(512, 32)).astype("float32")
    labels = random.integers(0, 4, len(images))
    batches = tf.data.Dataset.from_tensor_slices((images, labels)).batch(32).repeat().prefetch(2)
    with strategy.scope():
        dense = tf.keras.layers.Dense
        model = tf.keras.Sequential([dense(256, activation="relu"), dense(4)])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer="sgd", loss=loss)
    history = model.fit(batches, epochs=2, steps_per_epoch=32, verbose=0)
    print("loss at the end", history.history["loss"][-1])


if __name__ == "__main__":
    main()
