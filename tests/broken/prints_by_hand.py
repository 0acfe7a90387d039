# All the texts of the contract, and no collective at all.
import os

r = os.environ["RANK"]
print(f"RANK={r} LOCAL_RANK={r} WORLD_SIZE=2 backend=gloo", flush=True)
print(f"entre {r}\nsort {r}\nmoyenne {r} [3.0, 5.0]\ngradient {r} [[0.5, 1.5]]", flush=True)
if r == "0":
    print("all_reduce_ms 0.512", flush=True)
