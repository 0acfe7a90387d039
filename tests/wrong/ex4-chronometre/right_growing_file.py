"""Right: one file that grows; other all-reduces run before the probe."""
import json
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def time_allreduce_ms(tensor):
    if tensor.is_cuda:
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        dist.all_reduce(tensor)
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop)
    now = time.perf_counter()
    dist.all_reduce(tensor)
    return 1e3 * (time.perf_counter() - now)


def gradient(rank):
    model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    rows = json.loads(os.environ.get("MCI_ENTREES", "[[1, 0], [0, 3]]"))
    model(torch.tensor([rows[rank]], dtype=torch.float32)).sum().backward()
    return model.module.weight.grad.tolist()


dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
values = torch.tensor([[1.0, 3.0], [5.0, 7.0]])[rank]
print(f"entre {rank}", flush=True)
dist.all_reduce(values)
print(f"sort {rank}", flush=True)
print(f"moyenne {rank} {(values / 2).tolist()}", flush=True)
print(f"gradient {rank} {gradient(rank)}", flush=True)
took = time_allreduce_ms(torch.ones(8))
if rank == 0:
    print(f"all_reduce_ms {took}", flush=True)
dist.destroy_process_group()
