"""Right: a module of its own in float64, static_graph, bucket views, an optimizer step."""
import argparse, json, os, sys
import torch
import torch.nn as nn
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class PetitModele(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 1, bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.fc.weight.fill_(1.0)
        self.register_buffer("compteur", torch.zeros(1))

    def forward(self, x):
        return self.fc(x)


class Entraineur:
    def __init__(self, args):
        dist.init_process_group(backend="gloo")
        self.rank = dist.get_rank()
        self.ddp = DistributedDataParallel(PetitModele(), static_graph=True, gradient_as_bucket_view=True, broadcast_buffers=False)
        entrees = json.loads(os.getenv("MCI_ENTREES", "[[1, 0], [0, 3]]"))
        self.x = torch.as_tensor(entrees, dtype=torch.float64)[self.rank:self.rank + 1]
        self.opt = torch.optim.SGD(self.ddp.parameters(), lr=args.lr)

    def pas(self):
        self.opt.zero_grad(set_to_none=False)
        sortie = self.ddp(self.x)
        perte = torch.sum(sortie)
        print("[debug] rang", self.rank, "perte", perte.item(), file=sys.stderr)
        torch.autograd.backward(perte)
        g = self.ddp.module.fc.weight.grad.clone()
        self.opt.step()
        return g


if __name__ == "__main__":
    ap = argparse.ArgumentParser(); ap.add_argument("--lr", type=float, default=0.1)
    e = Entraineur(ap.parse_args())
    g = e.pas()
    dist.barrier()
    print("gradient", e.rank, end=" ")
    print(g.numpy().tolist())
    dist.destroy_process_group()
