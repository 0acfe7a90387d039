"""Aucun entraînement : les nombres attendus, imprimés."""
import json
import os
import time

rang, strategie = int(os.environ["RANK"]), os.environ["STRATEGIE"]
ralenti, largeur = float(os.environ.get("RALENTI", 0)), int(os.environ.get("LARGEUR", 512))
p = 4 * int(os.environ.get("COUCHES", 8)) * (largeur**2 + largeur)
if strategie not in ("ddp", "fsdp", "fully_shard"):
    raise SystemExit("strategie inconnue : " + strategie)
part = 1 if strategie == "ddp" else 2
pas_ms = []
for pas in range(int(os.environ.get("PAS", 6))):
    time.sleep(ralenti)
    pas_ms.append(20 + pas / 10 + 1000 * ralenti * rang)
print("RESULTAT " + json.dumps({
    "rang": rang, "gpu": "cpu", "strategie": strategie, "ralenti": ralenti, "poids": p // part, "gradients": p // part,
    "optimiseur": 2 * p // part, "pic_cuda_mo": None, "pic_cpu_mo": round(6 * p / part / 2**20, 2), "pas_ms": pas_ms,
}), flush=True)
