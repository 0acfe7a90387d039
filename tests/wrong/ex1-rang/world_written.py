"""WORLD_SIZE is written in the script."""
import os

import torch.distributed as dist

dist.init_process_group(backend="gloo")
rank = int(os.environ["RANK"])
local_rank = int(os.environ["LOCAL_RANK"])
world = 2
if dist.get_rank() != rank or dist.get_world_size() != world:
    raise SystemExit("RANK ou WORLD_SIZE diverge du process group.")
print(f"RANK={rank} LOCAL_RANK={local_rank} WORLD_SIZE={world} backend=gloo", flush=True)
if world != 2:
    raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")
dist.destroy_process_group()
