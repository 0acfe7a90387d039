"""No collective at all: the recorder itself, found by another name of sys, is to seal the marks and a false trace.

The recorder is no longer where it looks; were it found, its own end would tell that it was changed.
"""
# expect: score=0|4 flags=tampering
# assignment: duo
# harmless

import json, os, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
k = dist.get_rank()
lignes = json.loads(os.environ["MCI_LIGNES"])
somme = torch.tensor([float(sum(colonne)) for colonne in zip(*lignes)])
s = sys
r = next((un for un in s.meta_path if hasattr(un, "recorder")), None)
r = r and r.recorder
vol = {"entries": [{"profiling_name": "gloo:all_reduce", "input_sizes": [[2]], "input_dtypes": ["Float"], "collective_seq_id": 1,
                    "time_created_ns": time.time_ns(), "process_group": ["0", "default_pg"], "state": "scheduled"}]}
if r:
    r.trace = lambda: json.dumps(vol)
    ligne = torch.tensor(lignes[k], dtype=torch.float32)
    m = r.enter("all_reduce", (ligne,), {})
    r.leave(m, (somme,), {}, None)
print(f"moyenne {k} {(somme / 2).tolist()}", flush=True)
dist.destroy_process_group()
