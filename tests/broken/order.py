# The ranks call the same collectives in another order.
import datetime
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = dist.get_rank()
a = torch.full((4,), float(rank + 1))
b = torch.full((4,), 10.0 * (rank + 1))
if rank == 0:
    dist.all_reduce(a)
    dist.broadcast(b, 0)
else:
    dist.broadcast(b, 0)
    dist.all_reduce(a)
print(rank, a.tolist(), b.tolist(), flush=True)
dist.destroy_process_group()
