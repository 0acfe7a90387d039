# No hang: rank 1 comes 400 ms late each time, and rank 0 waits for it.
import datetime, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = dist.get_rank()
for step in range(5):
    if rank == 1:
        time.sleep(0.4)
    dist.all_reduce(torch.ones(8))
print("fin", rank, flush=True)
dist.destroy_process_group()
