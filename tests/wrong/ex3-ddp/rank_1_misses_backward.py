"""Rank 1 leaves before backward: rank 0 waits inside it."""
import json
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

rows = json.loads(os.environ.get("MCI_ENTREES", "[[1, 0], [0, 3]]"))
dist.init_process_group("gloo", timeout=timedelta(seconds=5))
rank = dist.get_rank()
layer = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.ones_(layer.weight)
row = torch.tensor([rows[rank]], dtype=torch.float32)
model = DDP(layer)
loss = model(row).sum()
if rank == 0:
    loss.backward()
    print(f"gradient {rank} {layer.weight.grad.tolist()}", flush=True)
del loss
del model
dist.destroy_process_group()
