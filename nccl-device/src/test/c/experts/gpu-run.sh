#!/bin/bash
mkdir -p /tmp/moe && tar xJf dist/n.tar.xz -C /tmp/moe
export NCCL_NVLS_ENABLE=0
timeout 55 /tmp/moe/moe-gpu 2>&1 | head -c 6000; echo "rc ${PIPESTATUS[0]}"
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 MASTER_PORT=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
for r in 0 1; do RANK=$r timeout 40 python3 /tmp/moe/a2a.py > /tmp/moe/a2a.$r 2>&1 & done; wait
head -c 3000 /tmp/moe/a2a.0; tail -c 800 /tmp/moe/a2a.1
