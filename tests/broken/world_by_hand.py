# The world size is written by hand: 4, for 2 processes.
import datetime, os
import torch
import torch.distributed as dist

dist.init_process_group(
    "gloo", rank=int(os.environ["RANK"]), world_size=4, timeout=datetime.timedelta(seconds=5))
