/* Protection domains, memory regions, completion queues and queue pairs. */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *c) {
  if (record("ibv_alloc_pd")) return NULL;
  struct ibv_pd *pd = calloc(1, sizeof *pd);
  pd->context = c;
  live++;
  return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) {
  int error = refused("ibv_dealloc_pd", pd->context);
  live--;
  if (!error) free(pd);
  return error;
}

static struct ibv_mr *registered(struct ibv_pd *pd, void *address, size_t bytes, char *mapped, size_t before) {
  struct fake_mr *made = calloc(1, sizeof *made);
  struct ibv_mr *mr = &made->mr;
  made->mapped = mapped;
  made->before = before;
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = bytes;
  pthread_mutex_lock(&lock);
  mr->lkey = 0x1000 + ++next_key;
  mr->rkey = 0x800000 + next_key;
  for (int i = 0; i < MRS; i++)
    if (!mrs[i]) { mrs[i] = made; break; }
  live++;
  pthread_mutex_unlock(&lock);
  return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access) {
  if (record("ibv_reg_mr")) return NULL;
  if (access != (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)) { errno = EINVAL; return NULL; }
  return registered(pd, address, bytes, NULL, 0);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova, unsigned int access) {
  say("relaxed bytes=%zu", bytes);
  if (iova != (uint64_t)address || !(access & IBV_ACCESS_RELAXED_ORDERING)) { errno = EINVAL; return NULL; }
  return ibv_reg_mr(pd, address, bytes, access & ~IBV_ACCESS_RELAXED_ORDERING);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) {
  say("dmabuf offset=%lu bytes=%zu iova=%lu fd=%d access=%d", offset, bytes, iova, fd, access);
  if (record("ibv_reg_dmabuf_mr")) return NULL;
  if (fd < 0) { errno = EBADF; return NULL; }
  if ((iova ^ offset) & 4095) { errno = EINVAL; return NULL; }
  char link[64], file[64] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink(link, file, sizeof file - 1) < 0 || strncmp(file, "/memfd:fake", 11)) return registered(pd, (void *)iova, bytes, NULL, 0);
  /* Of fakecuda: the pages of the memory from the file's position on, whatever is at their addresses. */
  struct stat s;
  uint64_t begin = lseek(fd, 0, SEEK_CUR) + offset, before = begin & 4095;
  if (fstat(fd, &s) || begin + bytes > (uint64_t)s.st_size) { errno = EINVAL; return NULL; }
  char *mapped = mmap(NULL, before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, begin - before);
  if (mapped == MAP_FAILED) return NULL;
  return registered(pd, (void *)iova, bytes, mapped, before);
}

int ibv_dereg_mr(struct ibv_mr *mr) {
  int known = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MRS; i++)
    if (mrs[i] && &mrs[i]->mr == mr) { mrs[i] = NULL; known = 1; }
  live -= known;
  pthread_mutex_unlock(&lock);
  if (!known) { record("ibv_dereg_mr again"); return EINVAL; }
  int error = refused("ibv_dereg_mr", mr->context);
  if (error) return error;
  struct fake_mr *own = (void *)mr;
  if (own->mapped) munmap(own->mapped, own->before + mr->length);
  free(mr);
  return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int entries, void *user, struct ibv_comp_channel *channel, int vector) {
  if (record("ibv_create_cq")) return NULL;
  struct fake_cq *cq = calloc(1, sizeof *cq);
  cq->cq.context = c;
  cq->cq.cqe = entries;
  live++;
  return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq) {
  int error = refused("ibv_destroy_cq", cq->context);
  live--;
  if (!error) free(cq);
  return error;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a) {
  if (record("ibv_create_qp")) return NULL;
  char size[48];
  snprintf(size, sizeof size, "qp sends=%u", a->cap.max_send_wr);
  record(size);
  if (a->qp_type != IBV_QPT_RC || !a->send_cq || !a->recv_cq || a->cap.max_send_wr < 1) { errno = EINVAL; return NULL; }
  struct fake_qp *q = calloc(1, sizeof *q);
  q->qp.context = pd->context;
  q->qp.pd = pd;
  q->qp.send_cq = a->send_cq;
  q->qp.recv_cq = a->recv_cq;
  q->waiting_end = &q->waiting;
  pthread_mutex_lock(&lock);
  while (qps[next_qp % QPS]) next_qp++;
  q->qp.qp_num = 0x100000 + next_qp % QPS;
  qps[next_qp++ % QPS] = q;
  live++;
  pthread_mutex_unlock(&lock);
  return &q->qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask) {
  struct fake_qp *q = (void *)qp;
  char call[32];
  snprintf(call, sizeof call, "ibv_modify_qp:%d", a->qp_state);
  int error = record(call);
  if (error) return error;
  int ports = ((struct fake_device *)qp->context->device)->ports;
  if (a->qp_state == IBV_QPS_INIT) {
    say("init pkey=%d port=%d access=%d", a->pkey_index, a->port_num, a->qp_access_flags);
    if (a->port_num < 1 || a->port_num > ports || !(a->qp_access_flags & IBV_ACCESS_REMOTE_WRITE)) return EINVAL;
    q->port = a->port_num;
  }
  if (a->qp_state == IBV_QPS_RTR) {
    if (q->state != IBV_QPS_INIT || !(mask & IBV_QP_AV) || a->ah_attr.port_num > ports) return EINVAL;
    q->peer = a->dest_qp_num;
    q->path = a->ah_attr;
    say("path mtu=%d sl=%d port=%d dlid=%d global=%d", a->path_mtu, q->path.sl, q->path.port_num, q->path.dlid, q->path.is_global);
    if (q->path.is_global)
      say("grh sgid=%d dgid=%016lx.%016lx tc=%d hops=%d", q->path.grh.sgid_index, half(q->path.grh.dgid.raw),
          half(q->path.grh.dgid.raw + 8), q->path.grh.traffic_class, q->path.grh.hop_limit);
  }
  if (a->qp_state == IBV_QPS_RTS) {
    if (q->state != IBV_QPS_RTR || a->max_rd_atomic != 1 || a->rnr_retry != 7) return EINVAL;
    say("ready timeout=%d retries=%d", a->timeout, a->retry_cnt);
  }
  q->state = a->qp_state;
  return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp) {
  struct fake_qp *q = (void *)qp;
  int error = refused("ibv_destroy_qp", qp->context);
  pthread_mutex_lock(&lock);
  qps[qp->qp_num - 0x100000] = NULL;
  live--;
  while (q->waiting) { struct fake_waiting *w = q->waiting; q->waiting = w->next; free(w); }
  pthread_mutex_unlock(&lock);
  if (!error) free(q);
  return error;
}
