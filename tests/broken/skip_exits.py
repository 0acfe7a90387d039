# Rank 1 ends without the collective that rank 0 is in.
import datetime
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = dist.get_rank()
if rank == 0:
    dist.all_reduce(torch.ones(4))
print("fin", rank, flush=True)
