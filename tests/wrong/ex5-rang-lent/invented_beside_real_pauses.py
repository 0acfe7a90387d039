"""The pause is real; the durations are computed, no clock is read."""
import json, os, time, torch, torch.distributed as dist
R, L, N = float(os.environ.get("RALENTI", 0)), int(os.environ.get("RANG_LENT", 0)), int(os.environ.get("PAS", 6))
dist.init_process_group("gloo")
k = dist.get_rank()
for _ in range(N):
    dist.all_reduce(torch.ones(4))
    if k == L:
        time.sleep(R)
print("RESULTAT", json.dumps({"rang": k, "ralenti": R, "pas_ms": [4.2 if k == L else 4.2 + 1000 * R] * N}), flush=True)
dist.destroy_process_group()
