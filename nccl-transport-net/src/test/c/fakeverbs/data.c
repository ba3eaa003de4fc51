/* What moves data: sends, receives and completions. */
static void push(struct ibv_cq *to, const struct ibv_wc *wc) {
  struct fake_cq *cq = (void *)to;
  if (cq->tail - cq->head >= (unsigned)cq->cq.cqe) abort();
  cq->wc[cq->tail++ % CQ_ENTRIES] = *wc;
}

static int fake_poll(struct ibv_cq *on, int n, struct ibv_wc *wc) {
  struct fake_cq *cq = (void *)on;
  int got = 0;
  if (strcmp(fail_call, "poll_cq") == 0 && fail_after-- <= 0) return -1;
  pthread_mutex_lock(&lock);
  while (got < n && cq->head != cq->tail) wc[got++] = cq->wc[cq->head++ % CQ_ENTRIES];
  pthread_mutex_unlock(&lock);
  return got;
}

/* Where the bytes of registered memory are; null where they are not of it. */
static void *known(uint64_t address, uint64_t bytes, uint32_t key, int remote) {
  for (int i = 0; i < MRS; i++) {
    struct ibv_mr *mr = mrs[i] ? &mrs[i]->mr : NULL;
    if (mr && (remote ? mr->rkey : mr->lkey) == key) {
      uint64_t begin = (uint64_t)mr->addr;
      if (address < begin || address + bytes > begin + mr->length) return NULL;
      return mrs[i]->mapped ? mrs[i]->mapped + mrs[i]->before + (address - begin) : (void *)address;
    }
  }
  return NULL;
}

static void deliver(struct fake_qp *q) {
  while (q->waiting && q->receive_head != q->receive_tail) {
    struct fake_waiting *w = q->waiting;
    w->wc.wr_id = q->receive_ids[q->receive_head++ % 4096];
    push(q->qp.recv_cq, &w->wc);
    q->waiting = w->next;
    if (!q->waiting) q->waiting_end = &q->waiting;
    free(w);
  }
}

static int passes(struct fake_qp *q) {
  return q && q->state >= IBV_QPS_RTR && q->state != IBV_QPS_ERR && !(((struct fake_device *)q->qp.context->device)->down >> q->port & 1);
}

static unsigned draw(unsigned of) {
  chance ^= chance << 13;
  chance ^= chance >> 7;
  chance ^= chance << 17;
  return (unsigned)(chance >> 11) % of;
}

static int one_send(struct fake_qp *q, struct ibv_send_wr *wr, uint32_t bytes) {
  struct fake_qp *peer = q->peer >= 0x100000 && q->peer < 0x100000 + QPS ? qps[q->peer - 0x100000] : NULL;
  uint64_t there = wr->wr.rdma.remote_addr;
  int broken = chaos && draw(chaos) == 0, arrives = broken ? draw(3) : 2;
  if (break_in && --break_in == 0) broken = 1, arrives = break_arrives;
  if (!passes(peer) || !passes(q) || arrives == 0 || !leads(&q->path, q->qp.context->device, peer->qp.context->device) || (lost_from && bytes >= lost_from)) return IBV_WC_RETRY_EXC_ERR;
  void *own = bytes ? known(wr->sg_list->addr, bytes, wr->sg_list->lkey, 0) : NULL;
  void *theirs = bytes ? known(there, bytes, wr->wr.rdma.rkey, 1) : NULL;
  if (bytes && !own) return IBV_WC_LOC_PROT_ERR;
  if (bytes && !theirs) return IBV_WC_REM_ACCESS_ERR;
  if (wr->opcode == IBV_WR_RDMA_READ) memcpy(own, theirs, bytes);
  else if (bytes) memcpy(theirs, own, arrives == 1 ? bytes / 2 : bytes);
  if (arrives == 1) return IBV_WC_RETRY_EXC_ERR;
  if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    struct fake_waiting *w = calloc(1, sizeof *w);
    w->wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    w->wc.imm_data = wr->imm_data;
    w->wc.byte_len = bytes;
    w->wc.qp_num = peer->qp.qp_num;
    w->wc.wc_flags = IBV_WC_WITH_IMM;
    *peer->waiting_end = w;
    peer->waiting_end = &w->next;
    deliver(peer);
  }
  return broken ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS;
}

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
  struct fake_qp *q = (void *)qp;
  for (; wr; wr = wr->next) {
    char call[80];
    uint32_t bytes = wr->num_sge ? wr->sg_list->length : 0;
    *bad = wr;
    snprintf(call, sizeof call, "send op=%d bytes=%u flags=%u qp=%u", wr->opcode, bytes, wr->send_flags, qp->qp_num);
    pthread_mutex_lock(&lock);
    record(call);
    int error = record("post_send");
    if (error || q->state < IBV_QPS_RTS) { pthread_mutex_unlock(&lock); return error ? error : EINVAL; }
    int status = q->state == IBV_QPS_ERR ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
    if (!status && wc_status && wc_after-- <= 0) status = wc_status;
    if (!status) status = one_send(q, wr, bytes);
    if (status) q->state = IBV_QPS_ERR;
    if (status || wr->send_flags & IBV_SEND_SIGNALED) {
      struct ibv_wc wc = {.wr_id = wr->wr_id, .status = status, .qp_num = qp->qp_num, .vendor_err = status ? 129 : 0};
      wc.opcode = wr->opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
      push(qp->send_cq, &wc);
    }
    pthread_mutex_unlock(&lock);
  }
  return 0;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
  struct fake_qp *q = (void *)qp;
  *bad = wr;
  pthread_mutex_lock(&lock);
  int error = record("post_recv");
  if (!error) {
    if (wr->num_sge || wr->next) error = EINVAL;
    q->receive_ids[q->receive_tail++ % 4096] = wr->wr_id;
    deliver(q);
  }
  pthread_mutex_unlock(&lock);
  return error;
}
