"""The group's rank chooses one of two lines that are written by hand: no variable is read."""
import torch.distributed as dist

dist.init_process_group(backend="gloo")
if dist.get_rank() == 0:
    print("RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 backend=gloo", flush=True)
else:
    print("RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 backend=gloo", flush=True)
dist.destroy_process_group()
