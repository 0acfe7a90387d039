"""Right: autograd's function instead of the method, a module of its own, texts glued."""
import json
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

rows = json.loads(os.environ.get("MCI_ENTREES", "[[1, 0], [0, 3]]"))
dist.init_process_group("gloo")
rank = dist.get_rank()
layer = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.ones_(layer.weight)
row = torch.tensor([rows[rank]], dtype=torch.float32)


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


model = torch.nn.parallel.DistributedDataParallel(module=Small(), device_ids=None)
torch.autograd.backward([torch.sum(model(row))])
print("gradient", rank, layer.weight.grad.tolist(), end="", flush=True)
del model
dist.destroy_process_group()
