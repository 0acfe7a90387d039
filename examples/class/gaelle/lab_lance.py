"""Le même lanceur, écrit autrement : un fil par rang, une seule sortie par rang, nccl demandé à dist."""
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import torch
import torch.distributed as dist


def carte_de_travail():
    nombre = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if nombre < 2:
        sys.exit(f"Arrêt : il faut deux cartes visibles, et j'en vois {nombre}. Conteneur ? --gpus all.")
    if not dist.is_backend_available("nccl"):
        sys.exit("Arrêt : nccl indisponible dans cette image")
    for k in range(nombre):
        print(k, torch.cuda.get_device_properties(k).name)


def lance(monde, travailleur, strategie, ralenti=0.0, delai=300, **reglages):
    decodeur, textes, tombes = json.JSONDecoder(), {}, []
    with tempfile.TemporaryDirectory() as dossier:
        commun = dict(os.environ, WORLD_SIZE=str(monde), STRATEGIE=strategie, RALENTI=str(ralenti))
        commun.update({nom: str(valeur) for nom, valeur in reglages.items()})
        commun["DIST_INIT"] = "file://" + Path(dossier, "rv").as_posix()
        rangs = [
            subprocess.Popen(
                [sys.executable, "-c", travailleur], env=dict(commun, RANK=str(k), LOCAL_RANK=str(k)), text=True,
                encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
            for k in range(monde)
        ]

        def suivre(k):
            textes[k] = rangs[k].communicate()[0]
            if rangs[k].returncode > 0:
                tombes.append(k)
                fini.set()
            elif all(un.poll() is not None for un in rangs):
                fini.set()

        fini = threading.Event()
        fils = [threading.Thread(target=suivre, args=(k,)) for k in range(monde)]
        try:
            for fil in fils:
                fil.start()
            a_temps = fini.wait(delai)
        finally:
            for un in rangs:
                if un.poll() is None and (tombes or not fini.is_set()):
                    un.terminate()
            for fil in fils:
                fil.join()
    for k in tombes:
        fin = textes[k].splitlines()[-5:]
        raise RuntimeError(f"Le rank {k} a échoué, code de sortie {rangs[k].returncode} : " + " / ".join(fin))
    if not a_temps:
        raise TimeoutError(f"rien au bout de {delai} s")
    tout = "\n".join(textes[k] for k in reversed(range(monde)))
    trouves = [decodeur.raw_decode(tout[un.end():])[0] for un in re.finditer(r"RESULTAT\s+", tout)]
    trouves.sort(key=lambda releve: releve["rang"])
    return trouves
