"""Le projet solo, en une classe : un objet par processus."""
import os
import sys
from datetime import timedelta
from timeit import default_timer

import torch
import torch.distributed as dist
import torch.nn as nn


class Processus:
    lignes = ((1.0, 3.0), (5.0, 7.0))
    entrees = ((1.0, 0.0), (0.0, 3.0))

    def __init__(self):
        self.nccl = os.getenv("MCI_BACKEND") == "nccl"
        if self.nccl and torch.cuda.device_count() == 0:
            print("MCI_BACKEND=nccl demande un GPU visible.", file=sys.stderr, flush=True)
            sys.exit(2)
        self.local = int(os.environ["LOCAL_RANK"])
        if self.nccl:
            torch.cuda.set_device(self.local)
        dist.init_process_group("nccl" if self.nccl else "gloo", timeout=timedelta(seconds=20))
        self.rang, self.monde = dist.get_rank(), dist.get_world_size()
        if os.environ["RANK"] != str(self.rang) or os.environ["WORLD_SIZE"] != str(self.monde):
            sys.exit("RANK ou WORLD_SIZE diverge du process group.")

    def place(self, tenseur):
        return tenseur.cuda() if self.nccl else tenseur

    def presenter(self):
        backend = dist.get_backend()
        print(f"RANK={self.rang} LOCAL_RANK={self.local} WORLD_SIZE={self.monde} backend={backend}")
        if self.monde != 2:
            sys.exit("Ce laboratoire attend WORLD_SIZE=2.")

    def moyenne(self):
        t = self.place(torch.tensor(self.lignes[self.rang])) / self.monde
        print("entre", self.rang)
        dist.all_reduce(t)
        print("sort", self.rang)
        print("moyenne", self.rang, t.cpu().tolist())

    def gradient(self):
        couche = self.place(nn.Linear(2, 1, bias=False))
        nn.init.constant_(couche.weight, 1)
        plus = {"device_ids": [torch.cuda.current_device()]} if self.nccl else {}
        modele = nn.parallel.DistributedDataParallel(couche, **plus)
        sortie = modele(self.place(torch.tensor([self.entrees[self.rang]])))
        sortie.sum().backward()
        print("gradient", self.rang, couche.weight.grad.cpu().tolist())

    def sonde(self):
        t = self.place(torch.ones(8))
        if t.device.type == "cuda":
            marques = [torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)]
            marques[0].record()
            dist.all_reduce(t)
            marques[1].record()
            torch.cuda.synchronize()
            ms = marques[0].elapsed_time(marques[1])
        else:
            t0 = default_timer()
            dist.all_reduce(t)
            ms = (default_timer() - t0) * 1000
        if self.rang == 0:
            print("all_reduce_ms", round(ms, 3))


p = Processus()
p.presenter()
p.moyenne()
p.gradient()
p.sonde()
dist.destroy_process_group()
