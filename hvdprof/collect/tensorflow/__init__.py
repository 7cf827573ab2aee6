"""Recording TensorFlow and Keras: compiled steps and calls made one by one."""
