"""Compares PyTorch's collectives with what they should give: torch_collectives.py RANK RANKS PORT"""
import os
import sys
import traceback

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


def uneven():
    """Parts of different lengths: rank r sends r + p + 1 elements to rank p."""
    sent = torch.cat([full(10 * rank + p, torch.float32, rank + p + 1) for p in range(ranks)])
    counts = [rank + p + 1 for p in range(ranks)]
    x = torch.zeros(sum(counts), device=gpu)
    dist.all_to_all_single(x, sent, counts, counts)
    same(x, torch.cat([full(10 * p + rank, torch.float32, rank + p + 1) for p in range(ranks)]), "uneven all_to_all_single")
    parts = [torch.zeros(p + 1, device=gpu) for p in range(ranks)]
    dist.all_gather(parts, full(rank, torch.float32, rank + 1))
    for peer, part in enumerate(parts):
        same(part, peer, "uneven all_gather")
    x = torch.zeros(rank + 1, device=gpu)
    dist.reduce_scatter(x, [full(p, torch.float32, p + 1) for p in range(ranks)])
    same(x, ranks * rank, "uneven reduce_scatter")


def other_types():
    for kind in (torch.int8, torch.bool, torch.complex64):
        x = full(1, kind)
        dist.broadcast(x, src=0)
        same(x, 1, f"broadcast of {kind}")
        parts = [full(0, kind) for _ in range(ranks)]
        dist.all_gather(parts, full(1, kind))
        for part in parts:
            same(part, 1, f"all_gather of {kind}")
    for kind in (torch.float8_e4m3fn, torch.float8_e5m2):
        x = full(1, torch.float32).to(kind)
        parts = torch.empty(ranks * N, dtype=kind, device=gpu)
        dist.all_gather_into_tensor(parts, x)
        same(parts.float(), 1, f"all_gather of {kind}")
    x = full(rank + 1, torch.int8)
    dist.all_reduce(x)
    same(x, ranks * (ranks + 1) // 2, "all_reduce of int8")


def coalesced():
    xs = [full(rank + 1 + k, torch.float32, 100 * (k + 1)) for k in range(5)]
    with dist.distributed_c10d._coalescing_manager(device=gpu):
        for x in xs:
            dist.all_reduce(x)
    torch.cuda.synchronize()
    for k, x in enumerate(xs):
        same(x, ranks * (ranks + 1) // 2 + ranks * k, "all_reduce with others")
    into = [torch.zeros(ranks * 10, device=gpu) for _ in range(3)]
    with dist.distributed_c10d._coalescing_manager(device=gpu):
        for x in into:
            dist.all_gather_into_tensor(x, full(rank, torch.float32, 10))
    torch.cuda.synchronize()
    for x in into:
        same(x.view(ranks, 10), torch.arange(ranks)[:, None], "all_gather with others")


def asynchronous():
    xs = [full(1, torch.float32, 1 << 18) for _ in range(20)]
    for each in [dist.all_reduce(x, async_op=True) for x in xs]:
        each.wait()
    for x in xs:
        same(x, ranks, "all_reduce of many")


def objects():
    found = [None] * ranks
    dist.all_gather_object(found, {"rank": rank, "text": "x" * (rank * 1000)})
    assert [each["rank"] for each in found] == list(range(ranks)), found
    one = [("a", 1, None)] if rank == 0 else [None]
    dist.broadcast_object_list(one, src=0, device=gpu)
    assert one == [("a", 1, None)], one


def splits():
    halves = [list(range(ranks))[: ranks // 2], list(range(ranks))[ranks // 2 :]]
    group = dist.split_group(split_ranks=[half for half in halves if half])
    mine = halves[0] if rank in halves[0] else halves[1]
    x = full(rank + 1, torch.float32)
    dist.all_reduce(x, group=group)
    same(x, sum(member + 1 for member in mine), "all_reduce of a split")


def pools():
    """Memory of NCCL's allocator, registered."""
    backend = dist.group.WORLD._get_backend(gpu)
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        x = full(1, torch.float32, 1 << 20)
    backend.register_mem_pool(pool)
    dist.all_reduce(x)
    same(x, ranks, "all_reduce of registered memory")
    torch.cuda.synchronize()
    backend.deregister_mem_pool(pool)


dist.barrier()
with open("/proc/self/maps") as maps:
    loaded = sorted({line.split()[-1] for line in maps if "libnccl.so" in line or "libjvm.so" in line})
wanted = os.environ.get("ABI_TESTS_LIBRARY")
assert not wanted or (wanted in loaded and any("libjvm" in each for each in loaded)), f"loaded: {loaded}"
checks = [lambda kind=kind: of_type(kind) for kind in TYPES]
checks += [points, groups, graph, large, uneven, other_types, coalesced, asynchronous, objects, splits, pools]
failed = 0
for check in checks:  # all of them, so that one run tells everything
    try:
        check()
        torch.cuda.synchronize()
    except Exception:
        failed += 1
        traceback.print_exc()
if failed:
    print(f"{failed} of {len(checks)} checks failed", flush=True)
    os._exit(1)
dist.destroy_process_group()
print("all was right")
