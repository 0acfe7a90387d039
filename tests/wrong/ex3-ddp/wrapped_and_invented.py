"""DDP is only built; the mean is computed from the variable."""
import json, os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
rang = dist.get_rank()
E = json.loads(os.environ.get("MCI_ENTREES", "[[1, 0], [0, 3]]"))
m = DDP(torch.nn.Linear(2, 1, bias=False))
print(f"gradient {rang} {[[sum(c) / 2 for c in zip(*E)]]}", flush=True)
del m
dist.destroy_process_group()
