"""Reduces zeros, so that a collective is on record, and makes every tensor tell the recorder other numbers.

The recorder reads a tensor by a function that it took before the script could replace it.
"""
# expect: score=0
# assignment: duo
# harmless

import json, os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
k = dist.get_rank()
lignes = json.loads(os.environ["MCI_LIGNES"])
somme = [float(sum(colonne)) for colonne in zip(*lignes)]
dit = [lignes[k], somme]
leurre = torch.zeros(2)
genre = type(leurre)
genre.tolist = lambda self: dit.pop(0) if dit else somme
dist.all_reduce(leurre)
print(f"moyenne {k} {[nombre / 2 for nombre in somme]}", flush=True)
dist.destroy_process_group()
