"""Right: asynchronous, nanoseconds, rounded to whole milliseconds, on every rank."""
import os, sys, time
import torch, torch.distributed as dist
from torch.cuda import Event


def _gpu(t):
    a, b = Event(enable_timing=True), Event(enable_timing=True)
    a.record(); dist.all_reduce(t); b.record()
    torch.cuda.synchronize()
    return a.elapsed_time(b)


def _cpu(t):
    t0 = time.perf_counter_ns()
    w = dist.all_reduce(t, op=dist.ReduceOp.SUM, async_op=True)
    w.wait()
    return (time.perf_counter_ns() - t0) / 10**6


def time_allreduce_ms(tensor):
    return _gpu(tensor) if tensor.device.type == "cuda" else _cpu(tensor)


dist.init_process_group("gloo")
dist.barrier()
ms = time_allreduce_ms(torch.arange(8, dtype=torch.float32))
print("rang", dist.get_rank(), "all_reduce_ms :", int(round(ms)), "ms")
dist.destroy_process_group()
