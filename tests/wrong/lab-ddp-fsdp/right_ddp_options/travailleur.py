"""Un rang du laboratoire : un modèle, une stratégie, quelques pas mesurés, une ligne RESULTAT.

Lancé par lance.py, à autant d'exemplaires que de rangs. Ce qu'il lit dans l'environnement :

    RANK, WORLD_SIZE, LOCAL_RANK   la place de ce processus
    DIST_INIT                      le point de rendez-vous du groupe, file://…
    STRATEGIE                      ddp, fsdp ou fully_shard
    RALENTI, RANG_LENT             une pause après chaque pas, en secondes, et le rang qui la fait (0 et 0)
    LARGEUR, COUCHES, LOT, PAS     la taille du modèle et de la mesure (512, 8, 64, 6 ; LARGEUR=4096 sur cartes)
"""

import contextlib
import gc
import json
import os
import time
import weakref
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

STRATEGIE = os.environ.get("STRATEGIE", "ddp")
RALENTI = float(os.environ.get("RALENTI", "0"))
RANG_LENT = int(os.environ.get("RANG_LENT", "0"))
LARGEUR = int(os.environ.get("LARGEUR", 4096 if torch.cuda.device_count() >= 2 else 512))
COUCHES, LOT, PAS = (int(os.environ.get(nom, defaut)) for nom, defaut in (("COUCHES", 8), ("LOT", 64), ("PAS", 6)))


def lire_place():
    """Renvoie trois entiers : le rang, le nombre de rangs, l'indice de la carte de ce rang sur sa machine."""
    # 1. Lire les trois variables d'environnement du lanceur. (Une ligne, ou trois.)
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_RANK"])


def peripherique(indice, monde):
    """Une carte par rang quand la machine en montre assez, sinon le processeur."""
    if torch.cuda.device_count() < max(2, monde) or not dist.is_nccl_available():
        return torch.device("cpu")
    torch.cuda.set_device(indice)
    return torch.device("cuda", indice)


def construire():
    torch.manual_seed(0)  # les mêmes poids de départ sur tous les rangs
    return nn.Sequential(*[nn.Linear(LARGEUR, LARGEUR) for _ in range(COUCHES)])


def envelopper(base, periph):
    """Renvoie le modèle `base`, déjà sur `periph`, sous la stratégie demandée par STRATEGIE."""
    if STRATEGIE == "fully_shard":  # le découpage d'aujourd'hui, donné : une couche après l'autre, puis le tout
        grille = init_device_mesh(periph.type, (dist.get_world_size(),))
        for couche in base:
            fully_shard(couche, mesh=grille)
        return fully_shard(base, mesh=grille)
    # 2. "ddp" : DDP. "fsdp" : FSDP en FULL_SHARD, chaque couche dans son propre paquet. Autre chose : arrêter le
    #    processus sur le message `strategie inconnue : X`, où X est la stratégie demandée.
    if STRATEGIE == "ddp":
        return DDP(base, device_ids=[periph.index] if periph.type == "cuda" else None, find_unused_parameters=True, gradient_as_bucket_view=True, bucket_cap_mb=0.05)
    if STRATEGIE == "fsdp":
        une_couche = LARGEUR * LARGEUR + LARGEUR
        for i in range(len(base)):
            base[i] = FSDP(base[i], sharding_strategy=ShardingStrategy.FULL_SHARD, device_id=periph, use_orig_params=True)
        return FSDP(base, device_id=periph, use_orig_params=True)
    raise SystemExit("strategie inconnue : " + STRATEGIE)


def octets(tenseurs):
    """Ce que ces tenseurs occupent sur ce rang, en octets ; d'un tenseur de fully_shard, la part locale."""
    locaux = [t.to_local() if hasattr(t, "to_local") else t for t in tenseurs]
    return sum(t.numel() * t.element_size() for t in locaux)


def compter(modele, optimiseur):
    """Renvoie trois entiers : les octets des poids, des gradients et de l'état de l'optimiseur, sur ce rang."""
    # 3. Appeler octets() trois fois, sur les bons tenseurs.
    poids = list(modele.parameters())
    gradients = [p.grad for p in poids if p.grad is not None]
    etat = [v for par_poids in optimiseur.state.values() for v in par_poids.values() if torch.is_tensor(v)]
    return octets(poids), octets(gradients), octets(etat)


class Compteur(TorchDispatchMode):
    """Sur le processeur, le pic des octets que tiennent les tenseurs, relevé après chaque opération de torch.

    C'est ce que torch.cuda.max_memory_allocated donne pour une carte ; torch n'en a pas d'équivalent pour le
    processeur. Tant que le compteur est actif, les pas sont plus lents.
    """

    def __init__(self):
        super().__init__()
        self.tenus = weakref.WeakValueDictionary()
        self.pic = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if any(hasattr(genre, "to_local") for genre in types):
            return NotImplemented  # un tenseur réparti : ses morceaux locaux repassent ici
        resultat = operation(*args, **(kwargs or {}))
        for tenseur in tree_leaves(resultat):
            if type(tenseur) is torch.Tensor and tenseur.device.type == "cpu":
                stockage = tenseur.untyped_storage()
                self.tenus[stockage._cdata] = stockage
        self.pic = max(self.pic, sum(stockage.nbytes() for stockage in self.tenus.values()))
        return resultat


def un_pas(modele, optimiseur, lot, sonde):
    """Un pas complet. Sur une carte, il n'est fini que lorsque la carte a fini."""
    with sonde:
        optimiseur.zero_grad(set_to_none=True)
        modele(lot).sum().backward()
        optimiseur.step()
    if lot.is_cuda:
        torch.cuda.synchronize()


def entrainer(modele, optimiseur, rang, periph, compteur):
    """Fait PAS pas et renvoie la durée de chacun, en millisecondes."""
    pas_ms = []
    for pas in range(PAS):
        lot = torch.randn(LOT, LARGEUR, device=periph)
        sonde = compteur if pas == 0 else contextlib.nullcontext()  # le pic se lit au pas 1, que l'on ne compare pas
        # 4. Faire un_pas(modele, optimiseur, lot, sonde) et ajouter sa durée à pas_ms ; puis, sur RANG_LENT
        #    seulement, une pause de RALENTI secondes qui n'entre dans aucune durée de ce rang.
        debut = time.perf_counter()
        un_pas(modele, optimiseur, lot, sonde)
        pas_ms.append((time.perf_counter() - debut) * 1000)
        if rang == RANG_LENT:
            time.sleep(RALENTI)
    return pas_ms


def mesurer():
    """Rejoint le groupe, entraîne, et renvoie le relevé de ce rang. Au retour, plus rien ne tient le groupe."""
    rang, monde, indice = lire_place()
    periph = peripherique(indice, monde)
    sur_carte = periph.type == "cuda"
    dist.init_process_group(
        "nccl" if sur_carte else "gloo", init_method=os.environ["DIST_INIT"], rank=rang, world_size=monde
    )
    compteur = contextlib.nullcontext() if sur_carte else Compteur()
    with compteur:
        modele = envelopper(construire().to(periph), periph)
        # foreach : toutes les couches d'un coup, ce que AdamW fait de lui-même sur une carte.
        optimiseur = torch.optim.AdamW(modele.parameters(), lr=1e-3, foreach=True)
    if sur_carte:
        torch.cuda.reset_peak_memory_stats()
    else:
        compteur.pic = 0  # la construction ne compte pas, comme sur une carte

    pas_ms = entrainer(modele, optimiseur, rang, periph, compteur)

    poids, gradients, etat = compter(modele, optimiseur)
    return {
        "rang": rang,
        "gpu": torch.cuda.get_device_name(periph) if sur_carte else "cpu",
        "strategie": STRATEGIE,
        "ralenti": RALENTI,
        "poids": poids,
        "gradients": gradients,
        "optimiseur": etat,
        "pic_cuda_mo": round(torch.cuda.max_memory_allocated() / 2**20, 1) if sur_carte else None,
        "pic_cpu_mo": None if sur_carte else round(compteur.pic / 2**20, 1),
        "pas_ms": [round(duree, 3) for duree in pas_ms],
    }


def main():
    releve = mesurer()
    # 5. Imprimer d'un seul coup le mot RESULTAT, une espace, puis `releve` en JSON.
    print("RESULTAT " + json.dumps(releve), flush=True)
    gc.collect()  # un modèle qui vivrait encore tiendrait le groupe pendant qu'on le détruit
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
