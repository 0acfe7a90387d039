"""Default values: without a launcher it believes that it is a job."""
import os

import torch.distributed as dist

for name, value in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", 0)):
    os.environ.setdefault(name, str(value))
dist.init_process_group(backend="gloo")
rank = int(os.environ["RANK"])
local_rank = int(os.environ["LOCAL_RANK"])
world = int(os.environ["WORLD_SIZE"])
if dist.get_rank() != rank or dist.get_world_size() != world:
    raise SystemExit("RANK ou WORLD_SIZE diverge du process group.")
print(f"RANK={rank} LOCAL_RANK={local_rank} WORLD_SIZE={world} backend=gloo", flush=True)
if world != 2:
    raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")
dist.destroy_process_group()
