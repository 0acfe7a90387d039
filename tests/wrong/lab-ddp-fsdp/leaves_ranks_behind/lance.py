"""Un lanceur qui attend les rangs l'un après l'autre, et laisse derrière lui ceux qui ne finissent pas."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch


def carte_de_travail():
    assert torch.cuda.device_count() >= 2, "il faut deux cartes visibles (conteneur : --gpus all)"
    assert torch.distributed.is_nccl_available(), "nccl indisponible dans cette image"
    for rang in range(torch.cuda.device_count()):
        print("carte", rang, torch.cuda.get_device_name(rang))


def lance(monde, travailleur, strategie, ralenti=0.0, delai=300):
    dossier = pathlib.Path(tempfile.mkdtemp())
    script = dossier / "t.py"
    script.write_text(travailleur, encoding="utf-8")
    lances = []
    for rang in range(monde):
        env = dict(
            os.environ, RANK=str(rang), LOCAL_RANK=str(rang), WORLD_SIZE=str(monde), STRATEGIE=strategie,
            RALENTI=str(ralenti), DIST_INIT=(dossier / "rv").as_uri(),
        )
        lances.append(subprocess.Popen(
            [sys.executable, str(script)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            encoding="utf-8",
        ))
    releves, pannes = [], []
    for rang, un in enumerate(lances):
        sortie, erreur = un.communicate(timeout=delai)
        if un.returncode:
            pannes.append("rang %d : code %d\n%s" % (rang, un.returncode, erreur[-600:]))
        for trouve in re.finditer("RESULTAT ", sortie):
            releves.append(json.JSONDecoder().raw_decode(sortie, trouve.end())[0])
    if pannes:
        raise RuntimeError("\n".join(pannes))
    return sorted(releves, key=lambda releve: releve["rang"])
