"""A parenthesis is missing."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rang = dist.get_rank()
couche = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.ones_(couche.weight)
modele = DDP(couche
perte = modele(torch.tensor([[1.0, 0.0] if rang == 0 else [0.0, 3.0]])).sum()
perte.backward()
print(f"gradient {rang} {couche.weight.grad.tolist()}", flush=True)
dist.destroy_process_group()
