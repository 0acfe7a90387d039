"""Right: rank 0 also prints what every rank sent it; sys.exit after print."""
import os, sys, socket
import torch
import torch.distributed as dist
rang = int(os.environ["RANK"]); local = int(os.environ["LOCAL_RANK"]); taille = int(os.environ["WORLD_SIZE"])
dist.init_process_group(backend="gloo", rank=rang, world_size=taille)
print(f"[{socket.gethostname()}] pid {os.getpid()} torch {torch.__version__}", file=sys.stderr)
if dist.get_rank() != rang or dist.get_world_size() != taille:
    print("RANK ou WORLD_SIZE diverge du process group.", flush=True)
    sys.exit(1)
print("RANK=%d LOCAL_RANK=%d WORLD_SIZE=%d backend=gloo" % (rang, local, taille))
if taille != 2:
    print("Ce laboratoire attend WORLD_SIZE=2.")
    sys.exit(1)
# résumé sur le rang 0
places = [None] * taille
dist.all_gather_object(places, f"RANK={rang} LOCAL_RANK={local} WORLD_SIZE={taille} backend=gloo")
if rang == 0:
    for p in places:
        print("résumé :", p)
