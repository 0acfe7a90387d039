"""Right: whole milliseconds (0 for a quick step), indented JSON with more keys."""
import json, os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rang = dist.get_rank()
ralenti = float(os.environ.get("RALENTI") or 0)
lent = int(os.environ.get("RANG_LENT", 0))
torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), 1e-2)
x, y = torch.randn(8, 4), torch.randn(8, 1)

def pas():
    opt.zero_grad()
    torch.nn.functional.mse_loss(net(x), y).backward()
    flat = torch.cat([p.grad.flatten() for p in net.parameters()])
    dist.all_reduce(flat); flat /= dist.get_world_size()
    i = 0
    for p in net.parameters():
        p.grad.copy_(flat[i:i + p.numel()].view_as(p)); i += p.numel()
    opt.step()

def mesure():
    if rang == lent: time.sleep(ralenti)
    t = time.perf_counter_ns(); pas(); return (time.perf_counter_ns() - t) // 1_000_000

pas_ms = [mesure() for _ in range(int(os.environ.get("PAS", 6)))]
print("RESULTAT", json.dumps(dict(rang=rang, ralenti=ralenti, pas_ms=pas_ms, rang_lent=lent, torch=torch.__version__), indent=2), sep=" ")
dist.destroy_process_group()
