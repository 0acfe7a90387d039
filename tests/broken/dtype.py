# Integers on rank 0, floats on rank 1: ends well, with wrong numbers.
import datetime
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = dist.get_rank()
t = torch.ones(4, dtype=torch.int32 if rank == 0 else torch.float32)
dist.all_reduce(t)
print(rank, t.tolist(), flush=True)
dist.destroy_process_group()
