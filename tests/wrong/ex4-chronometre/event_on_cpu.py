"""Events are built before the device is looked at."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist

# Le chemin du portable. Sur un GPU, ce serait torch.device("cuda", indice) et la fonction changerait d'horloge.
PERIPHERIQUE = torch.device("cpu")


def time_allreduce_ms(tensor):
    """Lance un all-reduce de `tensor` et renvoie sa durée en millisecondes (float).

    Deux horloges, une seule par appel : celle du GPU pour un tenseur qui vit sur un GPU, celle du processus sinon.
    """
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    if tensor.is_cuda:
        first.record()
        dist.all_reduce(tensor)
        last.record()
        last.synchronize()
        return first.elapsed_time(last)
    t0 = time.perf_counter()
    dist.all_reduce(tensor)
    return (time.perf_counter() - t0) * 1000


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rang = dist.get_rank()

    # Les deux rangs partent ensemble : la sonde ne mesure pas le retard pris au démarrage.
    dist.barrier()

    sonde = torch.ones(8, device=PERIPHERIQUE)
    duree_ms = time_allreduce_ms(sonde)
    if rang == 0:
        print(f"all_reduce_ms {duree_ms:.3f}", flush=True)

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
