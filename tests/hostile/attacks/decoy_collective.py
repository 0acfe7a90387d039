"""Prints texts computed alone, and reduces something else of the same shape, so that a collective is on record.

The record holds what went in and what came out: not the rows, hence 0.
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
leurre = torch.zeros(2)
dist.all_reduce(leurre)
moyenne = torch.tensor([[sum(colonne) / 2 for colonne in zip(*lignes)]][0])
dist.all_reduce(moyenne, op=dist.ReduceOp.MAX)
print(f"moyenne {k} {moyenne.tolist()}", flush=True)
dist.destroy_process_group()
