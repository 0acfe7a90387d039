"""Finds the recorder in the frame of a collective that fails, changes it to its liking, and puts all back.

Names that betray are put together from pieces; what is left to see is how they are read, and that a reduction
was asked for inside another one.
"""
# expect: score=0|4 flags=tampering
# assignment: duo
# harmless

import functools, json, os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
k = dist.get_rank()
lignes = json.loads(os.environ["MCI_LIGNES"])
somme = torch.tensor([float(sum(colonne)) for colonne in zip(*lignes)])
suite = ["".join(morceaux) for morceaux in (("t", "b_next"), ("tb", "_frame"), ("f_", "locals"))]
try:
    dist.all_reduce("ceci n'est pas un tenseur")
except Exception as erreur:
    r = functools.reduce(getattr, suite, erreur.__traceback__)["recorder"]
ligne = torch.tensor(lignes[k], dtype=torch.float32)
m = r.enter("all_reduce", (ligne,), {})
r.put, dit = (lambda *a, **o: None), r.put
dist.all_reduce(torch.zeros(2))
r.put = dit
r.leave(m, (somme,), {}, None)
print(f"moyenne {k} {(somme / 2).tolist()}", flush=True)
dist.destroy_process_group()
