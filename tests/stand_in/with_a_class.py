"""A right script written otherwise: a class, `tensor.cuda()`, `with torch.cuda.device`, AVG, a stream."""

import os
from datetime import timedelta
from time import perf_counter

import torch
from torch import distributed, nn


class Lab:
    def __init__(self):
        self.rank, self.local, self.world = (int(os.environ[k]) for k in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
        self.nccl = os.environ.get("MCI_BACKEND") == "nccl"
        if self.nccl and torch.cuda.device_count() == 0:
            raise SystemExit("MCI_BACKEND=nccl demande un GPU visible.")
        self.backend = "nccl" if self.nccl else "gloo"

    def place(self, thing):
        return thing.cuda() if self.nccl else thing

    def run(self):
        if not self.nccl:
            return self.work()
        with torch.cuda.device(self.local):
            return self.work()

    def work(self):
        distributed.init_process_group(self.backend, timeout=timedelta(seconds=20))
        print(f"RANK={self.rank} LOCAL_RANK={self.local} WORLD_SIZE={self.world} backend={self.backend}")
        if self.world != 2:
            raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")
        print("entre", self.rank)
        row = self.place(torch.tensor([[1.0, 3.0], [5.0, 7.0]][self.rank]))
        if self.nccl:
            distributed.all_reduce(row, op=distributed.ReduceOp.AVG, async_op=True).wait()
        else:
            distributed.all_reduce(row.div_(self.world), async_op=True).wait()
        print("sort", self.rank)
        print("moyenne", self.rank, row.cpu().tolist())
        self.train()
        if self.rank == 0:
            print("all_reduce_ms", round(self.probe(), 3))
        else:
            self.probe()
        distributed.destroy_process_group()

    def train(self):
        model = self.place(nn.Linear(2, 1, bias=False))
        here = {"device_ids": [torch.cuda.current_device()], "output_device": self.local}
        where = here if self.nccl else {}
        wrapped = nn.parallel.DistributedDataParallel(model, **where)
        rows = torch.tensor([[[1.0, 0.0]], [[0.0, 3.0]]])
        wrapped(self.place(rows[self.rank])).sum().backward()
        print(f"gradient {self.rank} {model.weight.grad.cpu().numpy().tolist()}")

    def probe(self):
        floats = self.place(torch.ones(8))
        if not floats.is_cuda:
            start = perf_counter()
            distributed.all_reduce(floats)
            return (perf_counter() - start) * 1000
        torch.cuda.synchronize()
        stream = torch.cuda.current_stream()
        start = stream.record_event(torch.cuda.Event(enable_timing=True))
        distributed.all_reduce(floats)
        end = stream.record_event(torch.cuda.Event(enable_timing=True))
        torch.cuda.synchronize()
        return start.elapsed_time(end)


Lab().run()
