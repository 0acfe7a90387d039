"""A real call beside a number drawn at random."""
import random, torch, torch.distributed as dist
def time_allreduce_ms(tensor):
    if tensor.is_cuda:
        a = torch.cuda.Event(enable_timing=True); b = torch.cuda.Event(enable_timing=True)
        a.record(); dist.all_reduce(tensor); b.record(); b.synchronize()
        return a.elapsed_time(b)
    dist.all_reduce(tensor)
    return random.uniform(400, 500)
dist.init_process_group("gloo")
dist.barrier()
ms = time_allreduce_ms(torch.ones(8))
if dist.get_rank() == 0:
    print(f"all_reduce_ms {ms:.3f}", flush=True)
dist.destroy_process_group()
