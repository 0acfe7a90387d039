"""Right, and all on one line: nothing ends its text with a newline."""
import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

LIGNES = json.loads(os.environ.get("MCI_LIGNES", "[[1, 3], [5, 7]]"))
DELAI_S = int(os.environ.get("MCI_TIMEOUT_S", "20"))

dist.init_process_group("gloo", timeout=timedelta(seconds=DELAI_S))
k = dist.get_rank()
if os.environ.get("MCI_SKIP_RANK") == str(k):
    print(f"saute {k}", end="", flush=True)
    time.sleep(DELAI_S + 5)
else:
    ligne = torch.tensor(LIGNES[k], dtype=torch.float32)
    print(f"entre {k}", end="", flush=True)
    dist.all_reduce(ligne, op=dist.ReduceOp.SUM)
    print(f"sort {k}", end="", flush=True)
    print(f"moyenne {k} {(ligne / dist.get_world_size()).tolist()}", end="", flush=True)
dist.destroy_process_group()
