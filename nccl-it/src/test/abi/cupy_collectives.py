"""Compares CuPy's NCCL communicators, of one process, with what they should give."""
import cupy
from cupy.cuda import nccl

n = cupy.cuda.runtime.getDeviceCount()
comms = nccl.NcclCommunicator.initAll(list(range(n)))
send, recv, streams = [], [], []
for gpu in range(n):
    with cupy.cuda.Device(gpu):
        send.append(cupy.full(1000, gpu + 1, dtype=cupy.float32))
        recv.append(cupy.zeros(1000 * n, dtype=cupy.float32))
        streams.append(cupy.cuda.Stream(non_blocking=True))
        cupy.cuda.runtime.deviceSynchronize()


def together(body):
    nccl.groupStart()
    for gpu in range(n):
        with cupy.cuda.Device(gpu):
            body(gpu, comms[gpu], streams[gpu].ptr)
    nccl.groupEnd()
    for stream in streams:
        stream.synchronize()


together(lambda g, c, s: c.allReduce(send[g].data.ptr, recv[g].data.ptr, 1000, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, s))
for gpu in range(n):
    assert float(recv[gpu][999]) == n * (n + 1) / 2
together(lambda g, c, s: c.allGather(send[g].data.ptr, recv[g].data.ptr, 1000, nccl.NCCL_FLOAT32, s))
for gpu in range(n):
    assert [float(recv[gpu][1000 * p]) for p in range(n)] == [p + 1 for p in range(n)]
together(lambda g, c, s: c.broadcast(send[g].data.ptr, recv[g].data.ptr, 1000, nccl.NCCL_FLOAT32, n - 1, s))
for gpu in range(n):
    assert float(recv[gpu][5]) == n
    assert comms[gpu].rank_id() == gpu and comms[gpu].device_id() == gpu
one = nccl.NcclCommunicator(1, nccl.get_unique_id(), 0)
one.allReduce(send[0].data.ptr, recv[0].data.ptr, 1000, nccl.NCCL_FLOAT32, nccl.NCCL_MAX, streams[0].ptr)
streams[0].synchronize()
assert float(recv[0][0]) == 1
one.destroy()
print("all was right")
