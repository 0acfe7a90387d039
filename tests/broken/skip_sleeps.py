# Rank 1 sleeps instead of entering the all-reduce; rank 0's own timeout (5 s) ends the wait.
import datetime, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = dist.get_rank()
if rank == 0:
    dist.all_reduce(torch.ones(4))
else:
    time.sleep(30)
print("fin", rank, flush=True)
