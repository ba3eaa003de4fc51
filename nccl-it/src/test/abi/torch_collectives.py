"""Compares PyTorch's collectives with what they should give: torch_collectives.py RANK RANKS PORT"""
import os
import sys

import torch
import torch.distributed as dist

rank, ranks, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
gpu = torch.device("cuda", rank % torch.cuda.device_count())
torch.cuda.set_device(gpu)
dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=gpu)
N = 1000
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.float64]


def same(found, expected, what):
    expected = torch.as_tensor(expected, device=gpu).to(found.dtype).expand(found.shape)
    assert torch.equal(found, expected), f"{what}: {found.flatten()[:4]} is not {expected.flatten()[:4]}"


def full(value, kind, n=N):
    return torch.full((n,), value, dtype=kind, device=gpu)


def of_type(kind):
    total = ranks * (ranks + 1) // 2
    x = full(rank + 1, kind)
    dist.all_reduce(x)
    same(x, total, "all_reduce")
    for op, expected in ((dist.ReduceOp.MAX, ranks), (dist.ReduceOp.MIN, 1)):
        x = full(rank + 1, kind)
        dist.all_reduce(x, op=op)
        same(x, expected, "all_reduce with another operator")
    x = full(2, kind)
    dist.all_reduce(x, op=dist.ReduceOp.PRODUCT)
    same(x, 2**ranks, "product")
    if kind.is_floating_point:
        x = full(ranks, kind)
        dist.all_reduce(x, op=dist.ReduceOp.AVG)
        same(x, ranks, "mean")
    if kind in (torch.float32, torch.float16, torch.float64):
        x = full(rank + 1, kind)
        dist.all_reduce(x, op=dist._make_nccl_premul_sum(2.0))
        same(x, 2 * total, "pre-multiplied sum")
    x = full(rank + 1, kind)
    dist.broadcast(x, src=ranks - 1)
    same(x, ranks, "broadcast")
    x = full(rank + 1, kind)
    dist.reduce(x, dst=0)
    if rank == 0:
        same(x, total, "reduce")
    numbers = torch.arange(1, ranks + 1, device=gpu).to(kind)
    x = torch.empty(ranks * N, dtype=kind, device=gpu)
    dist.all_gather_into_tensor(x, full(rank + 1, kind))
    same(x.view(ranks, N), numbers[:, None], "all_gather_into_tensor")
    parts = [full(0, kind) for _ in range(ranks)]
    dist.all_gather(parts, full(rank + 1, kind))
    for peer, part in enumerate(parts):
        same(part, peer + 1, "all_gather")
    x = full(0, kind)
    dist.reduce_scatter_tensor(x, numbers.repeat_interleave(N))
    same(x, ranks * (rank + 1), "reduce_scatter_tensor")
    x = full(0, kind)
    dist.reduce_scatter(x, [full(peer + 1, kind) for peer in range(ranks)])
    same(x, ranks * (rank + 1), "reduce_scatter")
    x = torch.empty(ranks * N, dtype=kind, device=gpu)
    dist.all_to_all_single(x, numbers.repeat_interleave(N) + rank)
    same(x.view(ranks, N), numbers[:, None] + rank, "all_to_all_single")
    parts = [full(0, kind) for _ in range(ranks)]
    dist.all_to_all(parts, [full(rank + peer, kind) for peer in range(ranks)])
    for peer, part in enumerate(parts):
        same(part, rank + peer, "all_to_all")
    parts = [full(0, kind) for _ in range(ranks)] if rank == 0 else None
    dist.gather(full(rank + 1, kind), parts, dst=0)
    for peer, part in enumerate(parts or []):
        same(part, peer + 1, "gather")
    x = full(0, kind)
    dist.scatter(x, [full(peer + 5, kind) for peer in range(ranks)] if rank == 0 else None, src=0)
    same(x, rank + 5, "scatter")


def points():
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    x, y = full(rank, torch.float32), full(-1, torch.float32)
    for each in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, y, before)]):
        each.wait()
    same(y, before, "batch_isend_irecv")
    if ranks > 1:
        if rank == 0:
            dist.send(x, 1)
        elif rank == 1:
            dist.recv(y, 0)
            same(y, 0, "recv")


def groups():
    for members in ([0], list(range(ranks)), list(range(0, ranks, 2))):
        group = dist.new_group(members)
        if rank in members:
            x = full(rank + 1, torch.float32)
            dist.all_reduce(x, group=group)
            same(x, sum(member + 1 for member in members), f"all_reduce of {members}")
            if len(members) > 1:  # beside the collectives of all
                side = torch.cuda.Stream()
                with torch.cuda.stream(side):
                    z = full(1, torch.float32, 1 << 20)
                    dist.all_reduce(z, group=group)
                y = full(1, torch.float32)
                dist.all_reduce(y, group=group)
                torch.cuda.synchronize()
                same(z, len(members), "all_reduce in another stream")
    dist.barrier()


def graph():
    x = full(1, torch.float32)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        dist.all_reduce(x)
        y = x * 2
    x.fill_(1)
    for _ in range(3):
        captured.replay()
    torch.cuda.synchronize()
    same(x, ranks**3, "all_reduce of a graph")
    same(y, 2 * ranks**3, "what follows it")


def large():
    x = torch.arange(64 << 20, device=gpu, dtype=torch.float32) % 1024
    y = x.clone()
    dist.all_reduce(x)
    assert torch.equal(x, y * ranks), "all_reduce of 256 MiB"


dist.barrier()
with open("/proc/self/maps") as maps:
    loaded = sorted({line.split()[-1] for line in maps if "libnccl.so" in line or "libjvm.so" in line})
wanted = os.environ.get("ABI_TESTS_LIBRARY")
assert not wanted or (wanted in loaded and any("libjvm" in each for each in loaded)), f"loaded: {loaded}"
for kind in TYPES:
    of_type(kind)
points()
groups()
graph()
large()
torch.cuda.synchronize()
dist.destroy_process_group()
print("all was right")
