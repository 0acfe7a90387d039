"""Le script entier du projet solo, sur le chemin du portable : un seul fichier qui a grandi."""
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

delai = int(os.environ.get("MCI_TIMEOUT_S", "20"))
dist.init_process_group("gloo", timeout=timedelta(seconds=delai))
rank, local_rank, world = (int(os.environ[nom]) for nom in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
if (rank, world) != (dist.get_rank(), dist.get_world_size()):
    raise SystemExit("RANK ou WORLD_SIZE diverge du process group.")
print(f"RANK={rank} LOCAL_RANK={local_rank} WORLD_SIZE={world} backend=gloo", flush=True)
if world != 2:
    raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")

tenseur = torch.tensor([[1.0, 3.0], [5.0, 7.0]][rank])
absent = os.environ.get("MCI_SKIP_RANK")
if absent == str(rank):
    print(f"saute {rank}", flush=True)
    time.sleep(delai + 5)
else:
    print(f"entre {rank}", flush=True)
    dist.all_reduce(tenseur)
    print(f"sort {rank}", flush=True)
    print(f"moyenne {rank} {(tenseur / world).tolist()}", flush=True)

if absent is None:
    couche = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(couche.weight)
    modele = DDP(couche)
    perte = modele(torch.tensor([[[1.0, 0.0]], [[0.0, 3.0]]][rank])).sum()
    perte.backward()
    print(f"gradient {rank} {couche.weight.grad.tolist()}", flush=True)
    depart = time.perf_counter()
    dist.all_reduce(torch.ones(8))
    if rank == 0:
        print(f"all_reduce_ms {(time.perf_counter() - depart) * 1000:.3f}", flush=True)
    del modele, perte

dist.destroy_process_group()
