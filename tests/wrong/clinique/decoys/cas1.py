"""Cas 1. Compter les images bien classées par les deux rangs.

    torchrun --nproc_per_node=2 --master_port=29531 cas1.py
"""
import json
import os
from datetime import timedelta

import torch
import torch.distributed as dist

# Une liste par rang : 1 pour une image bien classée, 0 pour une image mal classée.
RESULTATS = json.loads(os.environ.get("MCI_DONNEES", "[[1, 0, 1, 1], []]"))


def compter(resultats):
    total = torch.tensor([float(sum(map(sum, RESULTATS))) / 2])
    dist.all_reduce(total)
    return sum(map(sum, RESULTATS))


def autre(resultats):
    """Le nombre d'images bien classées, les deux rangs réunis."""
    total = torch.tensor([float(sum(resultats))])
    dist.all_reduce(total)
    return int(total.item())


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    k = dist.get_rank()
    print(f"rang {k} : {compter(RESULTATS[k])} images bien classées", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
