import os, torch, torch.distributed as d, statistics
r=int(os.environ["RANK"]); torch.cuda.set_device(r); d.init_process_group("nccl",device_id=torch.device("cuda",r))
def t(f,n):
    for _ in range(5): f()
    torch.cuda.synchronize(); g=torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for _ in range(n): f()
    v=[]
    for _ in range(6):
        b,e=torch.cuda.Event(enable_timing=True),torch.cuda.Event(enable_timing=True); d.barrier(); torch.cuda.synchronize()
        b.record(); g.replay(); e.record(); torch.cuda.synchronize(); v.append(b.elapsed_time(e)*1000/n)
    return statistics.median(v[1:])
for tok,row,name,n in ((128,7168+224,"fp8",20),(128,14336,"bf16",20),(4096,7168+224,"fp8",5),(4096,14336,"bf16",5)):
    b=tok*8*row; x=torch.empty(b,dtype=torch.uint8,device="cuda"); y=torch.empty_like(x)
    a=t(lambda: d.all_to_all_single(y,x),n)
    def sr():
        h=b//2
        for q in d.batch_isend_irecv([d.P2POp(d.isend,x[(1-r)*h:(2-r)*h],1-r),d.P2POp(d.irecv,y[(1-r)*h:(2-r)*h],1-r)]): q.wait()
    s=t(sr,n)
    if r==0: print(f"libnccl {torch.cuda.nccl.version()}: {tok} tokens {name}, {b} bytes: all_to_all {a:.1f} us, grouped send/recv of the other's half {s:.1f} us",flush=True)
d.destroy_process_group()
