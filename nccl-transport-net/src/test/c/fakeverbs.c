/* A libibverbs without hardware, for tests: devices as the test describes them, queue pairs that
 * move data within the process at once, a record of all calls, and any call can be made to fail.
 * Compiled against the installed verbs.h, so that a wrong offset in Java shows. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_query_gid_table

enum { DEVICES = 4, QPS = 1024, MRS = 4096, CQ_ENTRIES = 1 << 14, GIDS = 4, LOG_BYTES = 1 << 20 };

struct fake_gid { uint8_t raw[16]; uint32_t type; };

struct fake_device {
  struct ibv_device device;
  int state, layer, mtu, ports, lid;
  int events[2];
  struct fake_gid gids[GIDS];
};

struct fake_cq { struct ibv_cq cq; struct ibv_wc wc[CQ_ENTRIES]; unsigned head, tail; };

struct fake_waiting { struct ibv_wc wc; struct fake_waiting *next; };

struct fake_qp {
  struct ibv_qp qp;
  int state, receives;
  uint32_t peer;
  struct ibv_ah_attr path;
  uint64_t receive_ids[4096];
  unsigned receive_head, receive_tail;
  struct fake_waiting *waiting, **waiting_end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_device devices[DEVICES];
static int device_count;
static struct fake_qp *qps[QPS];
static struct ibv_mr *mrs[MRS];
static uint32_t next_qp, next_key;
static int live;
static char calls[LOG_BYTES];
static size_t calls_length;
static char fail_call[64];
static int fail_errno, fail_after;
static int wc_status, wc_after;
static uint64_t lost_from;

/* ---- what the test says ---- */

void fake_reset(void) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < device_count; i++) { close(devices[i].events[0]); close(devices[i].events[1]); }
  memset(devices, 0, sizeof devices);
  device_count = 0;
  calls_length = 0;
  calls[0] = 0;
  fail_call[0] = 0;
  wc_status = 0;
  lost_from = 0;
  pthread_mutex_unlock(&lock);
}

int fake_add_device(const char *name, int transport, int state, int layer, int mtu) {
  struct fake_device *d = &devices[device_count];
  snprintf(d->device.name, sizeof d->device.name, "%s", name);
  snprintf(d->device.ibdev_path, sizeof d->device.ibdev_path, "/nowhere/%s", name);
  d->device.transport_type = transport;
  d->device.node_type = IBV_NODE_CA;
  d->state = state;
  d->layer = layer;
  d->mtu = mtu;
  d->ports = 1;
  d->lid = layer == IBV_LINK_LAYER_INFINIBAND ? 7 + device_count : 0;
  if (pipe(d->events) != 0 || fcntl(d->events[0], F_SETFL, O_NONBLOCK) != 0) abort();
  return device_count++;
}

/* A device has so many ports, all alike but for the LID, which counts from its own. */
void fake_set_ports(int device, int ports) { devices[device].ports = ports; }

void fake_set_gid(int device, int index, long high, long low, int type) {
  struct fake_gid *g = &devices[device].gids[index];
  for (int i = 0; i < 8; i++) {
    g->raw[i] = (uint8_t)((uint64_t)high >> (56 - 8 * i));
    g->raw[8 + i] = (uint8_t)((uint64_t)low >> (56 - 8 * i));
  }
  g->type = type;
}

#ifdef FAKE_ROCE
/* For programs that cannot say what they want: one RoCE device with the address 127.0.0.1. */
__attribute__((constructor)) static void fake_roce(void) {
  fake_reset();
  fake_set_gid(fake_add_device("roce0", 0, IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET, IBV_MTU_4096), 1,
               0, 0xffff7f000001, IBV_GID_TYPE_ROCE_V2);
}
#endif

/* The call fails with this error number after so many successes, from then on. */
void fake_fail(const char *call, int error, int after) {
  snprintf(fail_call, sizeof fail_call, "%s", call);
  fail_errno = error;
  fail_after = after;
}

/* The next send but so many completes with this status. */
void fake_complete_with(int status, int after) { wc_status = status; wc_after = after; }

/* Writes of more bytes than this are lost on the way; 0: none are. */
void fake_lose_from(long bytes) { lost_from = bytes; }

/* A device reports an event about an element. */
void fake_event(int device, int type, long element) {
  struct ibv_async_event e;
  memset(&e, 0, sizeof e);
  e.element.qp = (void *)element;
  e.event_type = type;
  if (write(devices[device].events[1], &e, sizeof e) != sizeof e) abort();
}

/* Everything that was made and not yet destroyed. */
int fake_live(void) { return live; }

const char *fake_calls(void) { return calls; }

long fake_last_qp(void) {
  for (int i = QPS - 1; i >= 0; i--)
    if (qps[i]) return (long)&qps[i]->qp;
  return 0;
}

/* The completion queue of the last queue pair. */
long fake_last_cq(void) {
  long qp = fake_last_qp();
  return qp ? (long)((struct ibv_qp *)qp)->send_cq : 0;
}

/* ---- the library ---- */

/* Its own lock, since some are called with the other and some without: lines must not overlap. */
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;
static int record(const char *call) {
  pthread_mutex_lock(&recording);
  calls_length += snprintf(calls + calls_length, LOG_BYTES - calls_length, "%s\n", call);
  if (calls_length > LOG_BYTES - 100) calls_length = 0;
  int error = strcmp(call, fail_call) == 0 && fail_after-- <= 0 ? fail_errno : 0;
  pthread_mutex_unlock(&recording);
  if (error) errno = error;
  return error;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  char text[200];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  record(text);
}

static uint64_t half(const uint8_t *raw) {
  uint64_t value = 0;
  for (int i = 0; i < 8; i++) value = value << 8 | raw[i];
  return value;
}

/* Whether packets on a path come to a device: by its LID on a subnet, else by a GID of both ends. */
static int leads(const struct ibv_ah_attr *path, struct ibv_device *from, struct ibv_device *to) {
  struct fake_device *d = (void *)to, *own = (void *)from;
  static const uint8_t none[16];
  if (!path->is_global) return d->layer == IBV_LINK_LAYER_INFINIBAND && path->dlid >= d->lid && path->dlid < d->lid + d->ports;
  if (path->grh.sgid_index >= GIDS || memcmp(own->gids[path->grh.sgid_index].raw, none, 16) == 0) return 0;
  for (int i = 0; i < GIDS; i++)
    if (memcmp(d->gids[i].raw, path->grh.dgid.raw, 16) == 0) return 1;
  return 0;
}

struct ibv_device **ibv_get_device_list(int *count) {
  if (record("ibv_get_device_list")) return NULL;
  struct ibv_device **list = calloc(DEVICES + 1, sizeof *list);
  for (int i = 0; i < device_count; i++) list[i] = &devices[i].device;
  if (count) *count = device_count;
  live++;
  return list;
}

void ibv_free_device_list(struct ibv_device **list) { record("ibv_free_device_list"); live--; free(list); }

const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

__be64 ibv_get_device_guid(struct ibv_device *d) { return __builtin_bswap64(0x1122334455667700UL + (d->name[strlen(d->name) - 1])); }

static int fake_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

struct ibv_context *ibv_open_device(struct ibv_device *d) {
  say("open %s", d->name);
  if (record("ibv_open_device")) return NULL;
  struct ibv_context *c = calloc(1, sizeof *c);
  c->device = d;
  c->ops.poll_cq = fake_poll;
  c->ops.post_send = fake_post_send;
  c->ops.post_recv = fake_post_recv;
  c->async_fd = ((struct fake_device *)d)->events[0];
  live++;
  return c;
}

int ibv_close_device(struct ibv_context *c) { record("ibv_close_device"); live--; free(c); return 0; }

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a) {
  memset(a, 0, sizeof *a);
  a->phys_port_cnt = ((struct fake_device *)c->device)->ports;
  a->max_qp_wr = 16384;
  a->max_cqe = 1 << 20;
  return record("ibv_query_device");
}

int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *compat) {
  struct ibv_port_attr *a = (void *)compat;
  struct fake_device *d = (void *)c->device;
  memset(a, 0, 48);
  a->state = d->state;
  a->max_mtu = IBV_MTU_4096;
  a->active_mtu = d->mtu;
  a->gid_tbl_len = GIDS;
  a->max_msg_sz = 1u << 31;
  a->lid = d->lid ? d->lid + port - 1 : 0;
  a->active_width = 2;
  a->active_speed = 64;
  a->link_layer = d->layer;
  return record("ibv_query_port");
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid) {
  struct fake_device *d = (void *)c->device;
  if (index >= GIDS) return -1;
  memcpy(gid->raw, d->gids[index].raw, 16);
  return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *e, size_t max, uint32_t flags, size_t size) {
  struct fake_device *d = (void *)c->device;
  static const uint8_t none[16];
  size_t n = 0;
  if (record("_ibv_query_gid_table")) return -1;
  for (int port = 1; port <= d->ports; port++) {
    for (int i = 0; i < GIDS && n < max; i++) {
      if (memcmp(d->gids[i].raw, none, 16) == 0) continue;
      memset(&e[n], 0, size);
      memcpy(e[n].gid.raw, d->gids[i].raw, 16);
      e[n].gid_index = i;
      e[n].port_num = port;
      e[n].gid_type = d->gids[i].type;
      n++;
    }
  }
  return n;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c) {
  if (record("ibv_alloc_pd")) return NULL;
  struct ibv_pd *pd = calloc(1, sizeof *pd);
  pd->context = c;
  live++;
  return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) { record("ibv_dealloc_pd"); live--; free(pd); return 0; }

static struct ibv_mr *registered(struct ibv_pd *pd, void *address, size_t bytes) {
  struct ibv_mr *mr = calloc(1, sizeof *mr);
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = bytes;
  pthread_mutex_lock(&lock);
  mr->lkey = 0x1000 + ++next_key;
  mr->rkey = 0x800000 + next_key;
  for (int i = 0; i < MRS; i++)
    if (!mrs[i]) { mrs[i] = mr; break; }
  live++;
  pthread_mutex_unlock(&lock);
  return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access) {
  if (record("ibv_reg_mr")) return NULL;
  if (access != (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)) { errno = EINVAL; return NULL; }
  return registered(pd, address, bytes);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) {
  say("dmabuf offset=%lu bytes=%zu iova=%lu fd=%d access=%d", offset, bytes, iova, fd, access);
  if (record("ibv_reg_dmabuf_mr")) return NULL;
  if (fd < 0) { errno = EBADF; return NULL; }
  return registered(pd, (void *)iova, bytes);
}

int ibv_dereg_mr(struct ibv_mr *mr) {
  record("ibv_dereg_mr");
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MRS; i++)
    if (mrs[i] == mr) mrs[i] = NULL;
  live--;
  pthread_mutex_unlock(&lock);
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

int ibv_destroy_cq(struct ibv_cq *cq) { record("ibv_destroy_cq"); live--; free(cq); return 0; }

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a) {
  if (record("ibv_create_qp")) return NULL;
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
  record("ibv_destroy_qp");
  pthread_mutex_lock(&lock);
  qps[qp->qp_num - 0x100000] = NULL;
  live--;
  while (q->waiting) { struct fake_waiting *w = q->waiting; q->waiting = w->next; free(w); }
  pthread_mutex_unlock(&lock);
  free(q);
  return 0;
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *e) {
  return read(c->async_fd, e, sizeof *e) == sizeof *e ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *e) { record("ibv_ack_async_event"); }

const char *ibv_wc_status_str(enum ibv_wc_status s) {
  return s == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : s == IBV_WC_REM_ACCESS_ERR ? "remote access error" : "status";
}

const char *ibv_event_type_str(enum ibv_event_type t) {
  switch (t) {
    case IBV_EVENT_CQ_ERR: return "CQ error";
    case IBV_EVENT_QP_FATAL: return "local work queue catastrophic error";
    case IBV_EVENT_QP_REQ_ERR: return "invalid request local work queue error";
    case IBV_EVENT_QP_ACCESS_ERR: return "local access violation work queue error";
    case IBV_EVENT_DEVICE_FATAL: return "device fatal";
    case IBV_EVENT_PORT_ERR: return "port error";
    case IBV_EVENT_LID_CHANGE: return "LID change";
    case IBV_EVENT_GID_CHANGE: return "GID table change";
    default: return "event";
  }
}

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

static int known(uint64_t address, uint64_t bytes, uint32_t key, int remote) {
  for (int i = 0; i < MRS; i++)
    if (mrs[i] && (remote ? mrs[i]->rkey : mrs[i]->lkey) == key)
      return (uint64_t)mrs[i]->addr <= address && address + bytes <= (uint64_t)mrs[i]->addr + mrs[i]->length;
  return 0;
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

static int one_send(struct fake_qp *q, struct ibv_send_wr *wr, uint32_t bytes) {
  struct fake_qp *peer = q->peer >= 0x100000 && q->peer < 0x100000 + QPS ? qps[q->peer - 0x100000] : NULL;
  uint64_t there = wr->wr.rdma.remote_addr;
  if (!peer || peer->state < IBV_QPS_RTR || !leads(&q->path, q->qp.context->device, peer->qp.context->device) || (lost_from && bytes >= lost_from)) return IBV_WC_RETRY_EXC_ERR;
  if (bytes && !known(wr->sg_list->addr, bytes, wr->sg_list->lkey, 0)) return IBV_WC_LOC_PROT_ERR;
  if (bytes && !known(there, bytes, wr->wr.rdma.rkey, 1)) return IBV_WC_REM_ACCESS_ERR;
  if (wr->opcode == IBV_WR_RDMA_READ) memcpy((void *)wr->sg_list->addr, (void *)there, bytes);
  else if (bytes) memcpy((void *)there, (void *)wr->sg_list->addr, bytes);
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
  return IBV_WC_SUCCESS;
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
