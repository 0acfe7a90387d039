"""The clock's own unit."""
import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.algorithms.model_averaging.utils import average_parameters

RALENTI = float(os.environ.get("RALENTI", "0"))
RANG_LENT = int(os.environ.get("RANG_LENT", "0"))
PAS = int(os.environ.get("PAS", "6"))


def un_pas(modele, optimiseur, entrees, cibles):
    """Un pas complet. Il finit par un collectif : les rangs mettent en commun la moyenne de leurs poids.

    Avec SGD et des poids de départ égaux, c'est le même calcul que mettre en commun la moyenne des gradients.
    """
    optimiseur.zero_grad()
    (modele(entrees) - cibles).square().mean().backward()
    optimiseur.step()
    average_parameters(modele.parameters(), dist.group.WORLD)


def entrainer(rang):
    """Fait PAS pas et renvoie la durée mesurée de chacun, en millisecondes."""
    torch.manual_seed(0)  # les mêmes poids de départ sur tous les rangs
    modele = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    optimiseur = torch.optim.SGD(modele.parameters(), lr=0.01)
    torch.manual_seed(1 + rang)  # des données propres à chaque rang
    entrees, cibles = torch.randn(32, 64), torch.randn(32, 1)

    pas_ms = []
    for _ in range(PAS):
        # 1. Faire un pas, ajouter sa durée à pas_ms, puis la pause de RALENTI secondes sur RANG_LENT, hors mesure.
        start = time.perf_counter()
        un_pas(modele, optimiseur, entrees, cibles)
        pas_ms.append((time.perf_counter() - start))
        if rang == RANG_LENT:
            time.sleep(RALENTI)
    return pas_ms


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rang = dist.get_rank()
    pas_ms = entrainer(rang)

    # 2. Imprimer d'un seul coup le mot RESULTAT, une espace, puis l'objet JSON (rang, ralenti, pas_ms).
    print("RESULTAT", json.dumps({"rang": rang, "ralenti": RALENTI, "pas_ms": pas_ms}), flush=True)

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
