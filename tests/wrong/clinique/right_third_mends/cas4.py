"""Cas 4. Additionner les durées relevées par les deux rangs, en double précision.

    torchrun --nproc_per_node=2 --master_port=29531 cas4.py
"""
import json
import os
from datetime import timedelta

import torch
import torch.distributed as dist

torch.set_default_dtype(torch.float64)  # de longues sommes : float32 ne suffirait pas
DUREES = json.loads(os.environ.get("MCI_DONNEES", "[[7.5, 4.25], [12, 30]]"))  # une liste par rang, en secondes


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    k = dist.get_rank()
    durees = torch.tensor(DUREES[k]).to(torch.get_default_dtype())
    travail = dist.all_reduce(durees, async_op=True)
    travail.wait()
    print(f"rang {k} : durées {durees.tolist()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
