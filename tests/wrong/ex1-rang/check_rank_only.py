"""The number of processes is not compared."""
import os

import torch.distributed as dist

dist.init_process_group(backend="gloo")
rank = int(os.environ["RANK"])
local_rank = int(os.environ["LOCAL_RANK"])
world = int(os.environ["WORLD_SIZE"])
if dist.get_rank() != rank:
    raise SystemExit("RANK ou WORLD_SIZE diverge du process group.")
print(f"RANK={rank} LOCAL_RANK={local_rank} WORLD_SIZE={world} backend=gloo", flush=True)
if world != 2:
    raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")
dist.destroy_process_group()
