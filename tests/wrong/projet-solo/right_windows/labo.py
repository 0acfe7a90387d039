"""Projet solo : deux processus, un petit modèle, un gradient moyen. Le script que j'apporte à la séance.

	torchrun --nproc_per_node=2 --master_port=29531 labo.py

Sur une machine qui a deux GPU : la même commande, avec MCI_BACKEND=nccl devant.
"""

import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

# Une ligne par rang : celles que la moyenne réunit à la main, puis celles que le modèle reçoit.
LIGNES = json.loads(os.environ.get("MCI_LIGNES", "[[1, 3], [5, 7]]"))
ENTREES = json.loads(os.environ.get("MCI_ENTREES", "[[1, 0], [0, 3]]"))
DELAI_S = int(os.environ.get("MCI_TIMEOUT_S", "20"))
RANG_QUI_SAUTE = os.environ.get("MCI_SKIP_RANK")


def choisir_peripherique():
	"""Renvoie le périphérique de ce processus et le backend qui va avec, décidés ensemble."""
	if os.environ.get("MCI_BACKEND", "gloo") != "nccl":
		return torch.device("cpu"), "gloo"
	if not torch.cuda.is_available():
		raise SystemExit("MCI_BACKEND=nccl demande un GPU visible.")
	gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
	torch.cuda.set_device(gpu)
	return gpu, "nccl"


def moyenne_a_la_main(rang, taille, peripherique):
	"""Réunit la ligne de chaque rang par un all-reduce, et imprime leur moyenne."""
	ligne = torch.tensor(LIGNES[rang], dtype=torch.float32, device=peripherique)
	print(f"entre {rang}", flush=True)
	dist.all_reduce(ligne)
	print(f"sort {rang}", flush=True)
	print(f"moyenne {rang} {(ligne / taille).tolist()}", flush=True)


def gradient_de_ddp(rang, peripherique):
	"""Renvoie le gradient que les poids portent après le backward de DDP."""
	couche = torch.nn.Linear(2, 1, bias=False)
	torch.nn.init.ones_(couche.weight)
	couche.to(peripherique)
	sur_gpu = peripherique.type == "cuda"
	modele = DDP(couche, device_ids=[peripherique.index]) if sur_gpu else DDP(couche)
	entree = torch.tensor([ENTREES[rang]], dtype=torch.float32, device=peripherique)
	modele(entree).sum().backward()
	return couche.weight.grad.tolist()


def duree_all_reduce_ms(tenseur):
	"""Lance un all-reduce et renvoie sa durée en millisecondes, sur l'horloge du tenseur."""
	if tenseur.is_cuda:
		debut, fin = (torch.cuda.Event(enable_timing=True) for _ in range(2))
		debut.record()
		dist.all_reduce(tenseur)
		fin.record()
		fin.synchronize()
		return debut.elapsed_time(fin)
	depart = time.perf_counter()
	dist.all_reduce(tenseur)
	return (time.perf_counter() - depart) * 1000


def main():
	peripherique, backend = choisir_peripherique()
	dist.init_process_group(backend=backend, timeout=timedelta(seconds=DELAI_S))
	rang, rang_local, taille = (int(os.environ[nom]) for nom in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
	if (dist.get_rank(), dist.get_world_size()) != (rang, taille):
		raise SystemExit("RANK ou WORLD_SIZE diverge du process group.")
	print(f"RANK={rang} LOCAL_RANK={rang_local} WORLD_SIZE={taille} backend={backend}", flush=True)
	if taille != 2:
		raise SystemExit("Ce laboratoire attend WORLD_SIZE=2.")

	if RANG_QUI_SAUTE is None:
		moyenne_a_la_main(rang, taille, peripherique)
		print(f"gradient {rang} {gradient_de_ddp(rang, peripherique)}", flush=True)
		duree_ms = duree_all_reduce_ms(torch.ones(8, device=peripherique))
		if rang == 0:
			print(f"all_reduce_ms {duree_ms:.3f}", flush=True)
	elif rang == int(RANG_QUI_SAUTE):
		print(f"saute {rang}", flush=True)
		time.sleep(DELAI_S + 5)
	else:
		moyenne_a_la_main(rang, taille, peripherique)

	dist.destroy_process_group()


if __name__ == "__main__":
	main()
