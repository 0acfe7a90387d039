"""What a single process sees of the simulated GPUs; prints `fini` when all of it is as on a real machine."""

import copy
import io

import torch
import torch.nn.functional as F


def raises(call, *words):
    try:
        call()
    except Exception as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(f"rien n'a été levé : {words}")


assert torch.cuda.is_available() and torch.cuda.device_count() == 2 and torch.cuda.current_device() == 0
assert torch.cuda.get_device_name(1) and torch.cuda.get_device_properties(0).total_memory > 0
assert torch.accelerator.current_accelerator().type == "cuda" and torch.accelerator.device_count() == 2
raises(lambda: torch.cuda.set_device(2), "invalid device ordinal")
raises(lambda: torch.zeros(2, device="cuda:5"), "invalid device ordinal")

# Places: made there, moved there, kept by results, views, copies, gradients.
x = torch.ones(3, 2)
y = x.to("cuda:1")
assert not x.is_cuda and x.device.type == "cpu" and y.is_cuda and y.device == torch.device("cuda", 1)
assert (y + 1).device == y[0].device == y.T.device == y.detach().device == y.data.device == y.device
assert torch.zeros_like(y).device == y.new_zeros(3).device == torch.stack([y, y]).device == y.device
assert torch.arange(3, device=1).device == y.device and torch.tensor(3.0).to(y).is_cuda
assert torch.ones(1).cuda().device.index == 0 and torch.ones(1).to(1).get_device() == 1
assert torch.device(1) == torch.device("cuda:1") and isinstance(torch.device("cpu"), torch.device)
assert (y * torch.tensor(2.0)).is_cuda and y.cpu().numpy().sum() == 6 and y.tolist() == x.tolist()
assert "device='cuda:1'" in repr(y) and y.type() == "torch.cuda.FloatTensor"
raises(lambda: y + x, "same device", "cuda:1", "cpu")
raises(lambda: y + x.cuda(), "same device", "cuda:0", "cuda:1")
raises(lambda: y.numpy(), "Tensor.cpu()")
with torch.cuda.device(1):
    assert torch.zeros(1, device="cuda").device.index == 1
with torch.device("cuda"):
    assert torch.zeros(1).device.index == 0
torch.set_default_device("cuda:1")
assert torch.nn.Linear(2, 2).weight.device == torch.ones(2).device == torch.get_default_device() == y.device
torch.set_default_device(None)
assert torch.ones(1).device.type == "cpu"

# Modules, gradients, optimizers.
seen = []
model = torch.nn.Linear(2, 1, bias=False).to(1)
assert model.weight.device == y.device
model.weight.register_hook(lambda gradient: seen.append(gradient.device))
model(y).sum().backward()
assert seen == [y.device] and model.weight.grad.is_cuda and model.weight.grad.tolist() == [[3.0, 3.0]]
raises(lambda: model(x), "same device")
for kind in (torch.optim.SGD, torch.optim.AdamW):
    optimizer = kind(model.parameters(), lr=0.1)
    optimizer.step()
optimizer.zero_grad()
with torch.no_grad():
    model.weight.copy_(torch.tensor([[1.0, 2.0]]))
assert model.weight.tolist() == [[1.0, 2.0]] and copy.deepcopy(model).weight.device == y.device
buffer = io.BytesIO()
torch.save(model.state_dict(), buffer)
buffer.seek(0)
assert torch.load(buffer)["weight"].device == y.device


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.save_for_backward(value)
        return value * value

    @staticmethod
    def backward(ctx, gradient):
        (value,) = ctx.saved_tensors
        assert value.is_cuda and gradient.is_cuda
        return 2 * value * gradient


z = torch.ones(2, device="cuda:1", requires_grad=True)
Square.apply(z).sum().backward()
assert z.grad.is_cuda and torch.autograd.grad((z * 2).sum(), z)[0].device == z.device
deep = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten()).cuda()
F.cross_entropy(deep(torch.randn(2, 1, 5, 5).cuda()), torch.tensor([0, 1]).cuda()).backward()
assert all(one.grad.device.index == 0 for one in deep.parameters())
assert all(one.device.index == 0 for one in deep.buffers())
torch.nn.utils.clip_grad_norm_(deep.parameters(), 1.0)

# Time: nothing is complete before the host has waited.
first, second = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
raises(lambda: first.elapsed_time(second), "recorded")
first.record()
second.record()
raises(lambda: first.elapsed_time(second), "not ready")
torch.cuda.synchronize()
assert first.elapsed_time(second) >= 0
second.record()
raises(lambda: torch.cuda.Event().elapsed_time(second), "enable_timing")
with torch.cuda.stream(torch.cuda.Stream()) as stream:
    y.add_(1)
torch.cuda.current_stream().wait_stream(torch.cuda.Stream())
raises(lambda: torch.cuda.CUDAGraph(), "une personne")
print("fini")
