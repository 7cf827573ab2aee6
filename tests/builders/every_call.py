"""A script of Horovod's torch calls as scripts make them, without a word of the recorder.

``every_call.py [sparse_as_dense]``; what a call returns is checked in it.
"""

import copy
import pickle
import sys
import time

import cloudpickle
import horovod.torch as hvd
import torch
from horovod.torch.mpi_ops import allreduce as allreduce_from_its_home
from horovod.torch.optimizer import DistributedOptimizer as OptimizerFromItsHome

from tests.builders.no_compiler import leave_out_compiler


class Net(torch.nn.Module):
    """A sparse gradient, dense ones, and a collective that autograd goes through."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(10, 4, sparse=True)
        self.out = torch.nn.Linear(4, 2)

    def forward(self, inputs):
        return hvd.allreduce(self.out(self.words(inputs).mean(1)), name="inner")


def check_functions() -> None:
    for call in (hvd.allreduce, hvd.broadcast_object, hvd.DistributedOptimizer, hvd.shutdown):
        assert pickle.loads(pickle.dumps(call)) is call
        assert pickle.loads(cloudpickle.dumps(call)) is call
    assert allreduce_from_its_home is hvd.allreduce
    assert OptimizerFromItsHome is hvd.DistributedOptimizer


def check_collectives(model) -> None:
    size = hvd.size()
    sent = hvd.broadcast_object(model, root_rank=0)
    assert torch.equal(sent.out.weight, model.out.weight)
    assert hvd.allgather_object({"rank": hvd.rank()}) == [{"rank": rank} for rank in range(size)]
    handles = [hvd.allreduce_async(torch.ones(3), name=f"async.{i}") for i in range(2)]
    while not all(hvd.poll(handle) for handle in handles):
        time.sleep(0.001)
    assert [hvd.synchronize(handle).tolist() for handle in handles] == [[1, 1, 1]] * 2
    in_place = torch.ones(2)
    assert hvd.allreduce_(in_place, op=hvd.Sum) is in_place
    assert in_place.tolist() == [size, size]
    grouped = hvd.grouped_allreduce([torch.ones(1), torch.ones(2)], op=hvd.Sum)
    assert [one.tolist() for one in grouped] == [[size], [size, size]]
    rows, splits = hvd.alltoall(torch.arange(2.0), splits=torch.ones(2, dtype=torch.int32))
    assert (rows.shape, splits.tolist()) == ((2,), [1, 1])
    hvd.barrier()


def train() -> None:
    model = Net()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        named_parameters=model.named_parameters(),
        sparse_as_dense="sparse_as_dense" in sys.argv,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for i in range(4):
        optimizer.zero_grad()
        (model(torch.randint(0, 10, (4, 3))) ** 2).sum().backward()
        if i % 2:
            optimizer.synchronize()
            with optimizer.skip_synchronize():
                optimizer.step()
        else:
            optimizer.step()
        check_collectives(model)
    # Collectives of the ranks that are still training need no answer from this one any more.
    hvd.join()
    assert copy.deepcopy(model)(torch.zeros(1, 1, dtype=torch.int64)).shape == (1, 2)


leave_out_compiler()
hvd.init()
check_functions()
train()
sys.stdout.write("trained\n")
