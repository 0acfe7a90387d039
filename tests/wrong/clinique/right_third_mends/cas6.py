"""Cas 6. Le rang 0 envoie les poids de départ à l'autre rang.

	torchrun --nproc_per_node=2 --master_port=29531 cas6.py
"""
import json
import os
from datetime import timedelta

import torch
import torch.distributed as dist

POIDS = json.loads(os.environ.get("MCI_DONNEES", "[0.5, -1.0, 2.0]"))  # ceux du rang 0


def poids_de_depart():
	"""Les poids du rang 0, sur chaque rang."""
	if not dist.is_initialized():
		dist.init_process_group("gloo", timeout=timedelta(seconds=8))
	poids = torch.tensor(POIDS) if dist.get_rank() == 0 else torch.zeros(len(POIDS))
	dist.broadcast(poids, src=0)
	return poids


def main():
	poids = poids_de_depart()
	print(f"rang {dist.get_rank()} : poids {poids.tolist()}", flush=True)
	dist.destroy_process_group()


if __name__ == "__main__":
	main()
