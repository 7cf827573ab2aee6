"""The ranks of the job, connected by the engine that the script has initialised."""

from hvdprof.collect.clock import horovod_group, torch_group
from hvdprof.collect.clock.clock_exchange import RankGroup
from hvdprof.collect.identity import Identity, loaded_horovod, loaded_torch_distributed


def rank_group(identity: Identity) -> RankGroup:
    """The ranks of the job, over Horovod, else ``torch.distributed``, whichever is initialised.

    Raises:
        OSError: There are more ranks, but neither is initialised in this process.
    """
    distributed = loaded_torch_distributed()
    if identity.size > 1 and distributed is not None and loaded_horovod() is None:
        gather = torch_group.gather_over_store(distributed)
        return RankGroup(identity.rank, identity.size, gather)
    return horovod_group.rank_group(identity)
