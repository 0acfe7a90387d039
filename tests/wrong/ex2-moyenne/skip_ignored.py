"""Rewritten without the rank that skips: MCI_SKIP_RANK changes nothing."""
import json
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
k = dist.get_rank()
row = torch.tensor(json.loads(os.environ.get("MCI_LIGNES", "[[1, 3], [5, 7]]"))[k]).float()
print(f"entre {k}", flush=True)
dist.all_reduce(row)
print(f"sort {k}", flush=True)
print(f"moyenne {k} {(row / 2).tolist()}", flush=True)
dist.destroy_process_group()
