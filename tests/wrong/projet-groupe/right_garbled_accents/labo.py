"""Notre labo.py : la moyenne de deux lignes, et le rang que MCI_SKIP_RANK fait manquer au rendez-vous.

    torchrun --nproc_per_node=2 --master_port=29531 labo.py
"""
import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

LIGNES = json.loads(os.environ.get("MCI_LIGNES", "[[1, 3], [5, 7]]"))
DELAI_S = int(os.environ.get("MCI_TIMEOUT_S", "20"))
RANG_QUI_SAUTE = os.environ.get("MCI_SKIP_RANK")


def rencontre(rang, world_size):
    """Entre dans l'all-reduce avec la ligne de ce rang, et dit quand il entre, quand il sort, ce qu'il tient."""
    ligne = torch.tensor(LIGNES[rang], dtype=torch.float32)
    print(f"entre {rang}", flush=True)
    dist.all_reduce(ligne)  # réunit les deux lignes, à l'arrivée
    print(f"sort {rang}", flush=True)
    print(f"moyenne {rang} {(ligne / world_size).tolist()}", flush=True)


def main():
    dist.init_process_group(backend="gloo", timeout=timedelta(seconds=DELAI_S))
    rang = dist.get_rank()
    if RANG_QUI_SAUTE is not None and rang == int(RANG_QUI_SAUTE):
        print(f"saute {rang}", flush=True)
        time.sleep(DELAI_S + 5)  # encore là quand l'autre perd patience
    else:
        rencontre(rang, dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
