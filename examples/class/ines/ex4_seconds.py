"""The duration is printed in seconds."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def time_allreduce_ms(tensor):
    if tensor.is_cuda:
        avant, apres = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        avant.record()
        dist.all_reduce(tensor)
        apres.record()
        apres.synchronize()
        return avant.elapsed_time(apres)
    depart = time.perf_counter()
    dist.all_reduce(tensor)
    return time.perf_counter() - depart


dist.init_process_group("gloo", timeout=timedelta(seconds=20))
dist.barrier()
duree = time_allreduce_ms(torch.ones(8))
if dist.get_rank() == 0:
    print(f"all_reduce_ms {duree:.6f}", flush=True)
dist.destroy_process_group()
