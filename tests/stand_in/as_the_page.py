import json
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def pick():
    """(device, backend) of this process."""
    if os.environ.get("MCI_BACKEND", "gloo") != "nccl":
        return torch.device("cpu"), "gloo"
    if not torch.cuda.is_available():
        sys.exit("MCI_BACKEND=nccl demande un GPU visible.")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    return torch.device("cuda", local), "nccl"


def probe_ms(tensor):
    if not tensor.is_cuda:
        begin = time.perf_counter()
        dist.all_reduce(tensor)
        return 1e3 * (time.perf_counter() - begin)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    dist.all_reduce(tensor)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def main():
    device, backend = pick()
    dist.init_process_group(backend, timeout=timedelta(seconds=int(os.environ.get("MCI_TIMEOUT_S", "20"))))
    rank, local, world = (int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    print(f"RANK={rank} LOCAL_RANK={local} WORLD_SIZE={world} backend={backend}", flush=True)
    if world != 2:
        sys.exit("Ce laboratoire attend WORLD_SIZE=2.")
    rows = json.loads(os.environ.get("MCI_LIGNES", "[[1, 3], [5, 7]]"))
    mine = torch.tensor(rows[rank], dtype=torch.float32, device=device)
    print(f"entre {rank}", flush=True)
    dist.all_reduce(mine)
    print(f"sort {rank}", flush=True)
    print(f"moyenne {rank} {(mine / world).tolist()}", flush=True)

    model = torch.nn.Linear(2, 1, bias=False).to(device)
    wrapped = DDP(model, device_ids=[local]) if device.type == "cuda" else DDP(model)
    inputs = json.loads(os.environ.get("MCI_ENTREES", "[[1, 0], [0, 3]]"))
    loss = wrapped(torch.tensor([inputs[rank]], dtype=torch.float32, device=device)).sum()
    loss.backward()
    print(f"gradient {rank} {model.weight.grad.tolist()}", flush=True)
    elapsed = probe_ms(torch.ones(8, device=device))
    if rank == 0:
        print(f"all_reduce_ms {elapsed:.3f}", flush=True)
    del loss, wrapped, model
    dist.destroy_process_group()


main()
