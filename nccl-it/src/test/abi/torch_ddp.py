"""Trains a small model with DDP; prints losses and the time of a step: torch_ddp.py RANK RANKS PORT"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank, ranks, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, CUBLAS_WORKSPACE_CONFIG=":4096:8")
gpu = torch.device("cuda", rank % torch.cuda.device_count())
torch.cuda.set_device(gpu)
torch.use_deterministic_algorithms(True)
dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=gpu)
torch.manual_seed(1)
layers = []
for _ in range(8):
    layers += [torch.nn.Linear(1024, 1024), torch.nn.GELU()]
model = DistributedDataParallel(torch.nn.Sequential(*layers, torch.nn.Linear(1024, 1)).to(gpu))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
generator = torch.Generator(device=gpu).manual_seed(7 + rank)
losses, times = [], []
for step in range(60):
    x = torch.randn(256, 1024, device=gpu, generator=generator)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    optimizer.zero_grad()
    loss = (model(x) - x.mean(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - begin)
    losses.append(loss.item())
if rank == 0:
    print(json.dumps({"losses": losses, "step_us": sorted(times[10:])[25] * 1e6}))
dist.destroy_process_group()
