"""Cas 5. Additionner les pertes des deux rangs pendant que le rang 0 prépare son rapport.

    torchrun --nproc_per_node=2 --master_port=29531 cas5.py
"""
import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

PERTES = json.loads(os.environ.get("MCI_DONNEES", "[[2, 4], [6, 1]]"))  # une liste par rang


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    k = dist.get_rank()
    pertes = torch.tensor(PERTES[k], dtype=torch.float32)
    if k == 1:
        time.sleep(1)  # le rang 1 a plus de données à lire
    travail = dist.all_reduce(pertes, async_op=True)  # l'appel rend la main tout de suite
    if k == 0:
        print("rang 0 : en-tête du rapport", flush=True)
    travail.get_future().wait()
    dist.barrier()
    print(f"rang {k} : pertes {pertes.tolist()}", flush=True)
    dist.barrier()  # personne ne s'en va avant l'autre
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
