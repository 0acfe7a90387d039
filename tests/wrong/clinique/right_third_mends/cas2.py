"""Cas 2. Le rang 0 annonce un seuil, puis les rangs comptent les mesures qui le dépassent.

    torchrun --nproc_per_node=2 --master_port=29531 cas2.py
"""
import json
import os
from datetime import timedelta

import torch
import torch.distributed as dist

# Le seuil, que le rang 0 est seul à lire, puis les mesures de chaque rang.
SEUIL, MESURES = json.loads(os.environ.get("MCI_DONNEES", "[5, [[2, 6, 9], [7, 1, 8]]]"))


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    k = dist.get_rank()
    mesures = torch.tensor(MESURES[k], dtype=torch.float32)
    seuil = torch.zeros(1)
    nombre = torch.zeros(1)

    if k == 0:
        seuil += SEUIL
    dist.broadcast(seuil, src=0, async_op=True).wait()
    nombre += (mesures > seuil).sum()
    dist.all_reduce(nombre)

    print(f"rang {k} : {int(nombre.item())} mesures au-dessus de {seuil.item()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
