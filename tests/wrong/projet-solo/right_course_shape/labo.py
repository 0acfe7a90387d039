import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def peripherique():
    if os.environ.get("MCI_BACKEND", "gloo") == "nccl":
        if torch.cuda.is_available():
            indice = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(indice)
            return torch.device("cuda", indice), "nccl"
        raise SystemExit("MCI_BACKEND=nccl demande un GPU visible.")
    return torch.device("cpu"), "gloo"


def chrono_ms(t):
    if t.is_cuda:
        a = torch.cuda.Event(enable_timing=True)
        b = torch.cuda.Event(enable_timing=True)
        a.record()
        dist.all_reduce(t)
        b.record()
        b.synchronize()
        return a.elapsed_time(b)
    t0 = time.perf_counter()
    dist.all_reduce(t)
    return 1e3 * (time.perf_counter() - t0)


def main():
    dev, nom = peripherique()
    delai = int(os.environ.get("MCI_TIMEOUT_S", "20"))
    dist.init_process_group(backend=nom, timeout=timedelta(seconds=delai))
    r = int(os.environ["RANK"])
    lr = int(os.environ["LOCAL_RANK"])
    w = int(os.environ["WORLD_SIZE"])
    if r != dist.get_rank() or w != dist.get_world_size():
        raise SystemExit("RANK ou WORLD_SIZE diverge du process group.")
    print(f"RANK={r} LOCAL_RANK={lr} WORLD_SIZE={w} backend={nom}", flush=True)
    if w != 2:
        raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")

    moi = torch.tensor([1.0, 3.0] if r == 0 else [5.0, 7.0], device=dev)
    somme = moi.clone()
    saut = os.environ.get("MCI_SKIP_RANK")
    if saut is not None and int(saut) == r:
        print(f"saute {r}", flush=True)
        time.sleep(delai + 5)
    else:
        print(f"entre {r}", flush=True)
        dist.all_reduce(somme, op=dist.ReduceOp.SUM)
        print(f"sort {r}", flush=True)
        print(f"moyenne {r} {(somme / w).tolist()}", flush=True)

    if saut is None:
        model = torch.nn.Linear(2, 1, bias=False)
        with torch.no_grad():
            model.weight.fill_(1.0)
        model.to(dev)
        if dev.type == "cuda":
            model = DDP(model, device_ids=[lr])
        else:
            model = DDP(model)
        x = torch.tensor([[1.0, 0.0] if r == 0 else [0.0, 3.0]], device=dev)
        loss = model(x).sum()
        loss.backward()
        g = model.module.weight.grad.detach().cpu().tolist()
        print(f"gradient {r} {g}", flush=True)
        ms = chrono_ms(torch.ones(8, device=dev))
        if r == 0:
            print(f"all_reduce_ms {ms:.3f}", flush=True)
        del model, loss   # DDP ne retient plus le groupe

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
