# Rank 1 raises: it is the cause, rank 0 the victim.
import datetime
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = dist.get_rank()
if rank == 1:
    raise ValueError("faute du rang 1")
dist.all_reduce(torch.ones(4))
