"""Démarre un processus par rang, attend qu'ils finissent, et rend ce qu'ils ont mesuré.

    from lance import carte_de_travail, lance
    lance(2, texte_du_travailleur, "ddp")
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

# Comment un rang a fini. `code` : son code de sortie, ou None si c'est le lanceur qui a dû l'arrêter.
# `sortie` et `erreur` : les textes de ses deux sorties, stdout et stderr.
Fin = namedtuple("Fin", "rang code sortie erreur")

REPIT_S = 3  # quand un rang a échoué, ce qui reste aux autres pour finir d'eux-mêmes


def carte_de_travail():
    """Imprime une ligne par carte visible ; RuntimeError s'il manque de quoi lancer deux rangs avec nccl."""
    import torch  # ici seulement : le reste de ce fichier n'en a pas besoin

    cartes = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    for k, nom in enumerate(cartes):
        print(f"carte {k} : {nom}")
    # 1. Deux refus, chacun par une RuntimeError dont le message dit le premier obstacle rencontré.
    if not torch.distributed.is_nccl_available():
        raise RuntimeError("nccl indisponible dans cette image")
    if len(cartes) < 2:
        raise RuntimeError("il faut deux cartes visibles")


def resultats(texte):
    """Renvoie la liste des objets JSON qui suivent un mot RESULTAT, où qu'il se trouve dans `texte`."""
    # 2. Décoder à partir de chaque mot, jamais ligne par ligne.
    decodeur, mot, trouves = json.JSONDecoder(), "RESULTAT ", []
    place = texte.find(mot)
    while place >= 0:
        objet, fin = decodeur.raw_decode(texte, place + len(mot))
        trouves.append(objet)
        place = texte.find(mot, fin)
    return trouves


def verifier(fins):
    """RuntimeError si un rang a échoué de lui-même. `fins` : une Fin par rang, le premier qui a fini en tête."""
    # 3. Le message nomme chaque rang en échec, son code de sortie et les dernières lignes de son erreur.
    pannes = [
        f"rang {fin.rang} : code {fin.code}\n" + "\n".join(fin.erreur.strip().splitlines()[-8:])
        for fin in fins if fin.code not in (0, None)
    ]
    if pannes:
        raise RuntimeError("\n".join(pannes))


def attendre(processus, delai):
    """Attend tous les processus, `delai` secondes au plus ; renvoie leurs rangs, le premier qui a fini en tête."""
    finis = []
    echeance = time.monotonic() + delai
    while len(finis) < len(processus) and time.monotonic() < echeance:
        for rang, un in enumerate(processus):
            if rang not in finis and un.poll() is not None:
                finis.append(rang)
                if un.returncode != 0:
                    echeance = min(echeance, time.monotonic() + REPIT_S)
        time.sleep(0.05)
    return finis + [rang for rang in range(len(processus)) if rang not in finis]


def lance(monde, travailleur, strategie, ralenti=0.0, delai=300, **reglages):
    """Lance `monde` rangs du script dont `travailleur` est le texte ; renvoie leurs relevés, triés par rang.

    `reglages` : d'autres variables d'environnement pour les rangs, par exemple LARGEUR=256. Une panne ou un délai
    dépassé lève RuntimeError ; aucun processus ne survit à l'appel.
    """
    with tempfile.TemporaryDirectory(prefix="lance-", ignore_cleanup_errors=True) as nom:
        dossier = pathlib.Path(nom)
        script = dossier / "travailleur.py"
        script.write_text(travailleur, encoding="utf-8")
        commun = {
            **os.environ,
            "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // monde)),  # sinon chaque rang prend tous les cœurs
            "PYTHONUTF8": "1",
            "PYTHONUNBUFFERED": "1",  # rien d'imprimé ne se perd quand un rang est arrêté
            "WORLD_SIZE": str(monde),
            "STRATEGIE": strategie,
            "RALENTI": str(ralenti),
            "DIST_INIT": "file:///" + (dossier / "rendez-vous").as_posix().lstrip("/"),
            **{cle: str(valeur) for cle, valeur in reglages.items()},
        }
        if sys.platform == "linux":
            commun.setdefault("GLOO_SOCKET_IFNAME", "lo")  # une seule machine : pas besoin du réseau
        textes = [(dossier / f"sortie-{k}", dossier / f"erreur-{k}") for k in range(monde)]
        processus = []
        try:
            for rang, (sortie, erreur) in enumerate(textes):
                place = {"RANK": str(rang), "LOCAL_RANK": str(rang)}  # une seule machine : les deux coïncident
                with sortie.open("wb") as vers_sortie, erreur.open("wb") as vers_erreur:
                    processus.append(subprocess.Popen(
                        [sys.executable, str(script)], env={**commun, **place},
                        stdin=subprocess.DEVNULL, stdout=vers_sortie, stderr=vers_erreur,
                    ))
            ordre = attendre(processus, delai)
            codes = [un.poll() for un in processus]
        finally:  # même si l'on interrompt la cellule
            for un in processus:
                un.kill()
                un.wait()
        fins = [
            Fin(rang, codes[rang], *(f.read_text(encoding="utf-8", errors="replace") for f in textes[rang]))
            for rang in ordre
        ]
    verifier(fins)
    en_retard = [f"rang {fin.rang}" for fin in fins if fin.code is None]
    if en_retard:
        raise RuntimeError(f"délai de {delai} s dépassé, sans fin pour : " + ", ".join(en_retard))
    return sorted((un for fin in fins for un in resultats(fin.sortie)), key=lambda un: un["rang"])
