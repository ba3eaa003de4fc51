"""Times of Gloo's collectives through torch.distributed, to be set beside those of `./nccl perf`.

    python3 gloo.py RANKS [LARGEST_BYTES]

One process for each rank, float32, sum. Prints collective, bytes as `./nccl perf` counts them and
microseconds: the median of five rounds, each as many calls as fit into 15 ms, at least 5.
"""
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def calls(name, size, ranks):
    """One call of a collective on tensors of its own, or None where Gloo has none."""
    count = size // 4
    whole, other = torch.ones(count), torch.zeros(count)
    parts = list(other.chunk(ranks)) if count % ranks == 0 and count >= ranks else None
    if name == "broadcast":
        return lambda: dist.broadcast(whole, 0)
    if name == "reduce":
        return lambda: dist.reduce(whole, 0)
    if name == "all_reduce":
        return lambda: dist.all_reduce(whole)
    if parts is None:
        return None
    part = torch.ones(count // ranks)
    if name == "all_gather":
        return lambda: dist.all_gather(parts, part)
    if name == "reduce_scatter":
        return lambda: dist.reduce_scatter_tensor(part, whole)
    return lambda: dist.all_to_all_single(other, whole)


def measure(call):
    for _ in range(20):
        call()
    begin = time.perf_counter()
    for _ in range(5):
        call()
    guess = torch.tensor([(time.perf_counter() - begin) / 5])
    dist.all_reduce(guess, dist.ReduceOp.MAX)
    number = max(5, int(0.015 / guess.item()))
    rounds = []
    for _ in range(5):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(number):
            call()
        rounds.append((time.perf_counter() - begin) / number)
    return 1e6 * statistics.median(rounds)


def rank(me, ranks, largest, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=me, world_size=ranks)
    for name in ("broadcast", "reduce", "all_gather", "all_reduce", "alltoall", "reduce_scatter"):
        size = 8
        while size <= largest:
            try:
                call = calls(name, size, ranks)
                if call is not None:
                    micros = measure(call)
                    if me == 0:
                        print(name, size, "%.2f" % micros, flush=True)
            except (RuntimeError, NotImplementedError) as e:
                if me == 0:
                    print(name, "is not in this Gloo:", str(e).splitlines()[0], flush=True)
                break
            size *= 4
    dist.destroy_process_group()


if __name__ == "__main__":
    n = int(sys.argv[1])
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 64 << 20
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(rank, (n, most, folder + "/store"), nprocs=n)
