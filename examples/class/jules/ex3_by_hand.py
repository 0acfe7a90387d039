"""The mean gradient is right, made by a collective of the script: nothing is wrapped."""
import json
import os
from datetime import timedelta

import torch
import torch.distributed as dist

ENTREES = json.loads(os.environ.get("MCI_ENTREES", "[[1, 0], [0, 3]]"))

dist.init_process_group("gloo", timeout=timedelta(seconds=20))
rang = dist.get_rank()
couche = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.ones_(couche.weight)
couche(torch.tensor([ENTREES[rang]], dtype=torch.float32)).sum().backward()
gradient = couche.weight.grad
dist.all_reduce(gradient)
gradient /= dist.get_world_size()
print(f"gradient {rang} {gradient.tolist()}", flush=True)
dist.destroy_process_group()
