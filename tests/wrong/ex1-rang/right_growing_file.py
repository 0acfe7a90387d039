"""Right: one file that also holds what the later exercises ask for."""
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def place():
    names = ["RANK", "LOCAL_RANK", "WORLD_SIZE"]
    return [int(value) for value in map(os.environ.__getitem__, names)]


dist.init_process_group("gloo", timeout=timedelta(seconds=20))
me, here, everyone = place()
assert dist.get_rank() == me and dist.get_world_size() == everyone, "RANK ou WORLD_SIZE diverge du process group."
print("RANK=%d LOCAL_RANK=%d WORLD_SIZE=%d backend=%s" % (me, here, everyone, dist.get_backend()), flush=True)
if everyone != 2:
    raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")

row = torch.tensor([[1.0, 3.0], [5.0, 7.0]][me])
print("entre", me, flush=True)
dist.all_reduce(row)
print("sort", me, flush=True)
print("moyenne", me, (row / everyone).tolist(), flush=True)

model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
loss = model(torch.tensor([[1.0, 0.0], [0.0, 3.0]])[me]).sum()
loss.backward()
print("gradient", me, model.module.weight.grad.tolist(), flush=True)
del model, loss
dist.destroy_process_group()
