"""A right script written otherwise: torch.accelerator, `device_id=`, `f"cuda:{…}"`, a default device."""

import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

env = os.environ
rank, local_rank, world_size = int(env["RANK"]), int(env["LOCAL_RANK"]), int(env["WORLD_SIZE"])
wanted = env.get("MCI_BACKEND", "gloo").lower()
on_gpu = wanted == "nccl" and torch.accelerator.is_available()
if wanted == "nccl" and not on_gpu:
    print("MCI_BACKEND=nccl demande un GPU visible.", flush=True)
    raise SystemExit(1)

if on_gpu:
    device = f"cuda:{local_rank}"
    torch.accelerator.set_device_index(local_rank)
    dist.init_process_group(device_id=torch.device(device))
else:
    device = "cpu"
    dist.init_process_group("gloo")
torch.set_default_device(device)
print(f"RANK={rank} LOCAL_RANK={local_rank} WORLD_SIZE={world_size} backend={dist.get_backend()}", flush=True)
if world_size != 2:
    raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")

print(f"entre {rank}", flush=True)
gathered = [torch.zeros(2) for _ in range(world_size)]
mine = torch.tensor([1.0, 3.0]) if rank == 0 else torch.tensor([5.0, 7.0])
dist.all_gather(gathered, mine)
total = mine.clone()
dist.all_reduce(total)
print(f"sort {rank}", flush=True)
assert torch.equal(total, torch.stack(gathered).sum(0)), "la somme diffère"
mean = [float(number) / world_size for number in total]
print(f"moyenne {rank} {mean}", flush=True)

network = nn.Linear(2, 1, bias=False)
with torch.no_grad():
    network.weight.fill_(1.0)
parallel = DistributedDataParallel(network, device_ids=[device] if on_gpu else None)
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
loss = parallel(torch.tensor([[1.0, 0.0]]) if rank == 0 else torch.tensor([[0.0, 3.0]])).sum()
loss.backward()
print(f"gradient {rank} {network.weight.grad.tolist()}", flush=True)
optimizer.step()

probe = torch.ones(8)
dist.barrier()
if probe.device.type == "cuda":
    before, after = torch.Event(device, enable_timing=True), torch.Event(device, enable_timing=True)
    before.record()
    dist.all_reduce(probe)
    after.record()
    while not after.query():
        time.sleep(0.001)
    milliseconds = before.elapsed_time(after)
else:
    start = time.perf_counter_ns()
    dist.all_reduce(probe)
    milliseconds = (time.perf_counter_ns() - start) / 1e6
if rank == 0:
    print(f"all_reduce_ms {milliseconds:.3f}", flush=True)
del loss, optimizer, parallel, network
dist.destroy_process_group()
