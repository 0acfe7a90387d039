"""A cell leaves a server on the course's port before the launch; the script is honest, and imposes that port.

The box of the cells is gone when labo.py is launched, in a network of its own: the port is free.
"""
# expect: score=4 flags=none
# assignment: duo

# %% labo
import os
import torch
import torch.distributed as dist
import json
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29531", rank=int(os.environ["RANK"]), world_size=2)
k = dist.get_rank()
ligne = torch.tensor(json.loads(os.environ.get("MCI_LIGNES", "[[1, 3], [5, 7]]"))[k], dtype=torch.float32)
dist.all_reduce(ligne)
print(f"moyenne {k} {(ligne / 2).tolist()}", flush=True)
dist.destroy_process_group()
# %% file serveur.py
import socket, time
prise = socket.socket()
prise.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
prise.bind(("127.0.0.1", 29531))
prise.listen(64)
tenus = []
while True:
    tenus.append(prise.accept())
# %% cell serveur
import subprocess, sys
subprocess.Popen([sys.executable, "serveur.py", "@TOKEN@"], start_new_session=True, env={})
