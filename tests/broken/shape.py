# 4 elements on rank 0, 8 on rank 1.
import datetime
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = dist.get_rank()
t = torch.ones(4 if rank == 0 else 8)
dist.all_reduce(t)
print(rank, t.tolist(), flush=True)
dist.destroy_process_group()
