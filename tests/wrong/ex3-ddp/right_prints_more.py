"""Right: also prints the local gradient, and gathers to compare."""
import json, os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
rang = dist.get_rank()
E = json.loads(os.environ.get("MCI_ENTREES", "[[1, 0], [0, 3]]"))
x = torch.tensor([E[rang]], dtype=torch.float)
c = torch.nn.Linear(2, 1, bias=False); torch.nn.init.constant_(c.weight, 1.)
# gradient local, pour comparer
c(x).sum().backward()
print("gradient local", rang, c.weight.grad.tolist())
print("gradient {} {} (avant DDP)".format(rang, c.weight.grad.tolist()))
c.weight.grad = None
m = DDP(c, find_unused_parameters=True, bucket_cap_mb=1)
m(x).sum().backward()
for nom, p in m.named_parameters():
    print(f"{nom} : gradient {rang} {p.grad.tolist()}")
# les deux rangs sont-ils d'accord ?
tous = [torch.zeros(1, 2) for _ in range(dist.get_world_size())]
dist.all_gather(tous, c.weight.grad)
assert torch.equal(*tous)
del m
dist.destroy_process_group()
