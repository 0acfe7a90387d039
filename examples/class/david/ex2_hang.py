"""Only rank 0 enters the collective: it waits for a rank that never comes."""
import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

LIGNES = json.loads(os.environ.get("MCI_LIGNES", "[[1, 3], [5, 7]]"))
DELAI_S = int(os.environ.get("MCI_TIMEOUT_S", "20"))

dist.init_process_group(backend="gloo", timeout=timedelta(seconds=DELAI_S))
k = dist.get_rank()
ligne = torch.tensor(LIGNES[k], dtype=torch.float32)
print(f"entre {k}", flush=True)
if k == 0:
    dist.all_reduce(ligne)
else:
    time.sleep(3600)
print(f"sort {k}", flush=True)
print(f"moyenne {k} {(ligne / 2).tolist()}", flush=True)
dist.destroy_process_group()
