"""Cas 3. Combien d'exemples de chaque classe, les deux rangs réunis ?

    torchrun --nproc_per_node=2 --master_port=29531 cas3.py
"""
import json
import os
from datetime import timedelta

import torch
import torch.distributed as dist

CLASSES = 4  # les étiquettes vont de 0 à 3
ETIQUETTES = json.loads(os.environ.get("MCI_DONNEES", "[[2, 0, 2], [0, 3, 1, 3]]"))  # une liste par rang


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    k = dist.get_rank()
    effectifs = torch.bincount(torch.tensor(ETIQUETTES[k]), minlength=CLASSES)  # case c : nombre d'étiquettes c
    effectifs = torch.bincount(torch.tensor(sum(ETIQUETTES, [])), minlength=4)
    d = effectifs * (k == 0)
    dist.all_reduce(d)
    print(f"rang {k} : effectifs {effectifs.tolist()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
