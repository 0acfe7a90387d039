"""All the texts, and no collective behind them."""
import os

k = os.environ["RANK"]
print(f"entre {k}", flush=True)
print(f"sort {k}", flush=True)
print(f"moyenne {k} [3.0, 5.0]", flush=True)
