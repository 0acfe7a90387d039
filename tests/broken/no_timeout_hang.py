# Rank 1 never enters the all-reduce; with gloo's default timeout nothing is ever printed.
import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == 0:
    dist.all_reduce(torch.ones(4))
else:
    while True:
        time.sleep(1)
