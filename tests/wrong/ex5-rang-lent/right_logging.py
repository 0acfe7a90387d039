"""Right: DDP, a barrier inside the window, RESULTAT through logging, ralenti 0 where nobody sleeps."""
import argparse, json, logging, os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
logging.basicConfig(level=logging.INFO, format="[%(levelname)s] %(message)s")

class Boucle:
    def __init__(self):
        dist.init_process_group("gloo")
        self.rang = dist.get_rank()
        self.r, self.l, self.n = float(os.environ.get("RALENTI", 0)), int(os.environ.get("RANG_LENT", 0)), int(os.environ.get("PAS", 6))
        self.m = DDP(torch.nn.Linear(64, 8)); self.o = torch.optim.Adam(self.m.parameters())
    def tourne(self):
        t = []
        for i in range(self.n):
            d = time.time()
            dist.barrier()
            self.o.zero_grad(); self.m(torch.randn(16, 64)).pow(2).mean().backward(); self.o.step()
            t += [(time.time() - d) * 1e3]
            logging.info("rang %d pas %d : %.1f ms", self.rang, i, t[-1])
            if self.rang == self.l:
                time.sleep(self.r)
        return t
b = Boucle()
t = b.tourne()
logging.info("RESULTAT %s", json.dumps({"rang": b.rang, "ralenti": b.r if b.rang == b.l else 0.0, "pas_ms": t}))
del b.m, b.o
dist.destroy_process_group()
