"""Replaces torch.distributed.all_reduce by one that writes the right sum, without a word to the other rank.

The recorder stands below the name that is replaced: nothing was reduced, and the texts are worth 0.
"""
# expect: score=0 flags=hard-coded
# assignment: duo
# harmless

import json, os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
k = dist.get_rank()
lignes = json.loads(os.environ["MCI_LIGNES"])
def faux(tenseur, *a, **o):
    tenseur.copy_(torch.tensor(lignes).sum(0))
dist.all_reduce = dist.distributed_c10d.all_reduce = faux
ligne = torch.tensor(lignes[k], dtype=torch.float32)
dist.all_reduce(ligne)
print(f"moyenne {k} {(ligne / 2).tolist()}", flush=True)
dist.destroy_process_group()
