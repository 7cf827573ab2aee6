"""The models that a script shards by ``fully_shard`` of FSDP2.

Tested by tests/collect/auto/test_fsdp_models.py.
"""

import gc

from hvdprof.collect.engines.fsdp_reduction import is_fsdp, is_sharded
from hvdprof.collect.engines.torch_types import Model, Optimizer, parameters_of


def fsdp_model_of(optimizer: Optimizer) -> Model | None:
    """The outermost sharded module whose parameters an optimizer trains.

    Of several it is the one with most of them. None where no sharded module has any, or where the
    parameters are not sharded.
    """
    if not is_fsdp(None, optimizer):
        return None
    trained = {id(parameter) for parameter in parameters_of(optimizer) if parameter.requires_grad}
    largest, found = 0, None
    for instance in gc.get_objects():
        # A module whose constructor is still running has no parameters to ask for.
        if not is_sharded(type(instance)) or "_parameters" not in vars(instance):
            continue
        num = sum(id(parameter) in trained for _, parameter in instance.named_parameters())
        if num > largest:
            largest, found = num, instance
    return found
