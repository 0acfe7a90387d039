"""Right: another loop, the gradients averaged by DDP."""
import json
import os
import time

import torch
import torch.distributed as dist

pause, sleeper = float(os.environ.get("RALENTI", 0)), int(os.environ.get("RANG_LENT", 0))


def main(rank):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 32))
    optimizer = torch.optim.AdamW(model.parameters())
    times = []
    for _ in range(int(os.environ.get("PAS", 6))):
        begin = time.perf_counter()
        optimizer.zero_grad()
        model(torch.randn(16, 32)).square().mean().backward()
        optimizer.step()
        times.append(round((time.perf_counter() - begin) * 1000, 2))
        if rank == sleeper:
            time.sleep(pause)
    print("RESULTAT " + json.dumps({"rang": rank, "ralenti": pause, "pas_ms": times}), flush=True)


dist.init_process_group("gloo")
main(dist.get_rank())
dist.destroy_process_group()
