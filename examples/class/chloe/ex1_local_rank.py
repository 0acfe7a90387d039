"""LOCAL_RANK is copied from RANK: right on one node, wrong on two."""
import os

import torch.distributed as dist

dist.init_process_group(backend="gloo")
rank = int(os.environ["RANK"])
local_rank = rank
world_size = int(os.environ["WORLD_SIZE"])
if dist.get_rank() != rank or dist.get_world_size() != world_size:
    raise SystemExit("RANK ou WORLD_SIZE diverge du process group.")
print(f"RANK={rank} LOCAL_RANK={local_rank} WORLD_SIZE={world_size} backend=gloo", flush=True)
if world_size != 2:
    raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")
dist.destroy_process_group()
