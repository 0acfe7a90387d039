"""Each rank averages its own row; nothing is communicated."""
import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

ROWS = json.loads(os.environ.get("MCI_LIGNES", "[[1, 3], [5, 7]]"))
LIMIT_S = int(os.environ.get("MCI_TIMEOUT_S", "20"))
SKIP = os.environ.get("MCI_SKIP_RANK")

dist.init_process_group("gloo", timeout=timedelta(seconds=LIMIT_S))
k, world = dist.get_rank(), dist.get_world_size()
row = torch.tensor(ROWS[k], dtype=torch.float32)
if SKIP == str(k):
    print(f"saute {k}", flush=True)
    time.sleep(LIMIT_S + 5)
else:
    print(f"entre {k}", flush=True)
    row.mean()
    print(f"sort {k}", flush=True)
    print(f"moyenne {k} {(row / world).tolist()}", flush=True)
dist.destroy_process_group()
