"""Kills the last rank, and has the others call on: torch_watchdog.py RANK RANKS PORT SECONDS

With TORCH_NCCL_BLOCKING_WAIT=1 the others must get PyTorch's error from wait(), else its watchdog must
end their processes; both within the time-out of SECONDS, and some more for PyTorch's own waits.
"""
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

rank, ranks, port, seconds = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
gpu = torch.device("cuda", rank % torch.cuda.device_count())
torch.cuda.set_device(gpu)
limit = datetime.timedelta(seconds=seconds)
dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=gpu, timeout=limit)
x = torch.ones(1 << 20, device=gpu)
dist.all_reduce(x)
torch.cuda.synchronize()
assert x[0].item() == ranks
dist.barrier()
if rank == ranks - 1:
    os.kill(os.getpid(), signal.SIGKILL)
begin = time.monotonic()
print("the other ranks call on", flush=True)
try:
    dist.all_reduce(x, async_op=True).wait()
    torch.cuda.synchronize()
except RuntimeError as e:
    assert os.environ.get("TORCH_NCCL_BLOCKING_WAIT") == "1", f"an unexpected error: {e}"
    print(f"{type(e).__name__} after {time.monotonic() - begin:.1f} s: {e}", flush=True)
    os._exit(0)
# The watchdog ends this process meanwhile, whether or not the operation was dropped.
time.sleep(3 * seconds + 60)
print("nothing happened", flush=True)
os._exit(3)
