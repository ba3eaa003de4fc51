/* Devices, their ports and GIDs, and events. */
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

int ibv_fork_init(void) { return record("ibv_fork_init"); }

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
  struct fake_context *made = calloc(1, sizeof *made);
  struct ibv_context *c = &made->context;
  made->deaths = ((struct fake_device *)d)->deaths;
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
  a->state = d->down >> port & 1 ? IBV_PORT_DOWN : d->state;
  a->max_mtu = IBV_MTU_4096;
  a->active_mtu = d->mtu;
  a->gid_tbl_len = GIDS;
  a->max_msg_sz = 1u << 31;
  a->lid = d->lid ? d->lid + port - 1 : 0;
  a->active_width = 2;
  a->active_speed = d->speeds[port % 8];
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
