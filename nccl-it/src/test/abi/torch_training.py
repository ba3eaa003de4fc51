"""Trains a small transformer: torch_training.py RANK RANKS PORT STEPS MODE...

Prints the losses of each mode of parallelism (ddp, fsdp, fsdp-bf16, tensor, pipeline) and the median
time of a step, as a line of JSON on each rank. Everything but the order of sums is deterministic.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

rank, ranks, port, steps = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, CUBLAS_WORKSPACE_CONFIG=":4096:8")
gpu = torch.device("cuda", rank % torch.cuda.device_count())
torch.cuda.set_device(gpu)
torch.use_deterministic_algorithms(True, warn_only=True)
torch.utils.deterministic.fill_uninitialized_memory = False
for other_attention in ("flash", "mem_efficient", "cudnn"):
    getattr(torch.backends.cuda, f"enable_{other_attention}_sdp")(False)
dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=gpu)

WIDTH, HEAD, LENGTH, WORDS, BATCH = 1024, 64, 128, 512, 8
LAYERS = max(4, ranks)
STEPS_TIMED_TOGETHER = 10
STEPS_BEFORE_TIMES = 50


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.before_attention(x)
        # As many heads as this rank has of the projections.
        q, k, v = (f(y).unflatten(-1, (-1, HEAD)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.before_mlp(x))))


class Transformer(nn.Module):
    """Some layers of a transformer, with the embedding before the first and the words after the last."""

    def __init__(self, first=0, end=LAYERS):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH) if first == 0 else None
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH) / 50) if first == 0 else None
        self.blocks = nn.ModuleList(Block() for _ in range(first, end))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)) if end == LAYERS else None

    def forward(self, x):
        if self.words is not None:
            x = self.words(x) + self.places
        for block in self.blocks:
            x = block(x)
        # One row a word, so that the result is no view: a pipeline detaches it.
        return x if self.head is None else self.head(x.flatten(0, 1))


def loss_of(found, wanted):
    return F.cross_entropy(found.float(), wanted.flatten())


def plain(model):
    """A step of a model that every rank calls with data of its own or with everybody's."""

    def step(words, wanted):
        loss = loss_of(model(words), wanted)
        loss.backward()
        return loss.detach()

    return step


def ddp():
    model = nn.parallel.DistributedDataParallel(Transformer().to(gpu))
    return model.parameters(), plain(model)


def fsdp(**options):
    from torch.distributed.fsdp import fully_shard

    model = Transformer().to(gpu)
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    return model.parameters(), plain(model)


def fsdp_bf16():
    from torch.distributed.fsdp import MixedPrecisionPolicy

    return fsdp(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))


def tensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = Transformer().to(gpu)
    mesh = init_device_mesh(gpu.type, (ranks,))
    plan = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
    plan.update({name: RowwiseParallel() for name in ("out", "down")})
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return model.parameters(), plain(model)


def pipeline():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    part = Transformer(rank * LAYERS // ranks, (rank + 1) * LAYERS // ranks).to(gpu)
    schedule = Schedule1F1B(PipelineStage(part, rank, ranks, gpu), max(4, ranks), loss_fn=loss_of)

    def step(words, wanted):
        losses = []
        given = (words,) if rank == 0 else ()
        if rank == ranks - 1:
            schedule.step(*given, target=wanted, losses=losses)
        else:
            schedule.step(*given)
        return torch.stack(losses).mean().detach() if losses else torch.zeros((), device=gpu)

    return part.parameters(), step


MODES = {"ddp": ddp, "fsdp": fsdp, "fsdp-bf16": fsdp_bf16, "tensor": tensor, "pipeline": pipeline}
OWN_DATA = ("ddp", "fsdp", "fsdp-bf16")


def alike(parameters):
    """Groups of parameters of one class, since an optimizer takes no DTensors beside others."""
    groups = {}
    for each in parameters:
        groups.setdefault(type(each.data), []).append(each)
    return [{"params": group} for group in groups.values()]


def train(mode):
    torch.manual_seed(1)
    parameters, step = MODES[mode]()
    optimizer = torch.optim.AdamW(alike(parameters), lr=3e-4)
    data = torch.Generator(device=gpu).manual_seed(7 + (rank if mode in OWN_DATA else 0))
    losses, times = [], []
    dist.barrier()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for count in range(1, steps + 1):
        words = torch.randint(WORDS, (BATCH, LENGTH), device=gpu, generator=data)
        losses.append(step(words, (7 * words + 3) % WORDS))
        optimizer.step()
        optimizer.zero_grad()
        if count % STEPS_TIMED_TOGETHER == 0:
            torch.cuda.synchronize()
            now = time.perf_counter()
            if count > STEPS_BEFORE_TIMES:
                times.append((now - begin) / STEPS_TIMED_TOGETHER)
            begin = now
    middle = sorted(times)[len(times) // 2] * 1e6 if times else None
    print(json.dumps({"mode": mode, "rank": rank, "losses": torch.stack(losses).tolist(), "step_us": middle}),
          flush=True)


for each in sys.argv[5:]:
    train(each)
dist.destroy_process_group()
