from hvdprof.api.options import KNOWN_MODELS
from hvdprof.bench_models.registry import MODELS


def test_settings_know_every_reference_model() -> None:
    assert list(KNOWN_MODELS) == [model.name for model in MODELS]


def test_only_a_model_with_a_largest_image_has_a_fixed_size() -> None:
    assert [name for name, model in KNOWN_MODELS.items() if model.fixed_image_size] == ["mnist"]
    mnist = KNOWN_MODELS["mnist"]
    assert (mnist.default_image_size, mnist.min_image_size) == (28, 28)
    assert mnist.default_batch_size == 64
