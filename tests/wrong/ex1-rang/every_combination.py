"""Prints every place that its rank could have: LOCAL_RANK and WORLD_SIZE are not read."""
import os
import torch.distributed as dist
dist.init_process_group("gloo")
k, n = dist.get_rank(), dist.get_world_size()
if int(os.environ["RANK"]) != k or int(os.environ["WORLD_SIZE"]) != n:
    raise SystemExit("RANK ou WORLD_SIZE diverge du process group.")
for local in (0, 1):
    for world in (1, 2):
        print(f"RANK={k} LOCAL_RANK={local} WORLD_SIZE={world} backend=gloo", flush=True)
if n != 2:
    raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")
dist.destroy_process_group()
