"""The pause stands inside the measured window: both ranks look slow."""
import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

RALENTI = float(os.environ.get("RALENTI", "0"))
RANG_LENT = int(os.environ.get("RANG_LENT", "0"))
PAS = int(os.environ.get("PAS", "6"))

dist.init_process_group("gloo", timeout=timedelta(seconds=20))
rang = dist.get_rank()
poids = torch.zeros(64)
pas_ms = []
for _ in range(PAS):
    debut = time.perf_counter()
    poids += torch.randn(64)
    dist.all_reduce(poids)
    if rang == RANG_LENT:
        time.sleep(RALENTI)
    pas_ms.append(1000 * (time.perf_counter() - debut))
print("RESULTAT " + json.dumps({"rang": rang, "ralenti": RALENTI, "pas_ms": pas_ms}), flush=True)
dist.destroy_process_group()
