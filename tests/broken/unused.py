# A layer that takes no part in the loss: DDP waits for its gradient.
import datetime
import torch
import torch.distributed as dist

from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = dist.get_rank()


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.idle = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.used(x)


model = DDP(TwoLayers())
for _ in range(2):
    model(torch.ones(2, 4)).sum().backward()
