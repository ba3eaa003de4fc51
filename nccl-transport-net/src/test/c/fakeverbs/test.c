/* What the test says of devices, faults and losses, and what it asks. */
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
  chaos = 0;
  break_in = 0;
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
  memset(d->speeds, 64, sizeof d->speeds);
  d->lid = layer == IBV_LINK_LAYER_INFINIBAND ? 7 + device_count : 0;
  if (pipe(d->events) != 0) abort();
  for (int i = 0; i < 2; i++)
    if (fcntl(d->events[i], F_SETFL, O_NONBLOCK) != 0) abort();
  return device_count++;
}

/* A device has so many ports, all alike but for the LID, which counts from its own. */
void fake_set_ports(int device, int ports) { devices[device].ports = ports; }

/* A port's speed as verbs.h counts: 64 is 50 Gbit/s a lane, 16 is 14. */
void fake_set_speed(int device, int port, int speed) { devices[device].speeds[port] = speed; }

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
  fail_once = 0;
}

/* The next such call fails with this error number, and those after it do not. */
void fake_fail_once(const char *call, int error) {
  fake_fail(call, error, 0);
  fail_once = 1;
}

/* The next send but so many completes with this status. */
void fake_complete_with(int status, int after) { wc_status = status; wc_after = after; }

/* Writes of more bytes than this are lost on the way; 0: none are. */
void fake_lose_from(long bytes) { lost_from = bytes; }

/* A port is down, or up again: nothing passes it, and its state says so. */
void fake_set_down(int device, int port, int down) {
  pthread_mutex_lock(&lock);
  if (down) devices[device].down |= 1u << port;
  else devices[device].down &= ~(1u << port);
  pthread_mutex_unlock(&lock);
}

/* One of so many sends breaks its queue pair: nothing, half or all of it arrives, by chance; 0: none. */
void fake_chaos(int one_of, long seed) {
  pthread_mutex_lock(&lock);
  chaos = one_of;
  chance = seed * 0x9e3779b97f4a7c15UL + 1;
  pthread_mutex_unlock(&lock);
}

/* The send after so many breaks its queue pair; nothing (0), half (1) or all (2) of it arrives. */
void fake_break(int after, int arrives) { break_in = after + 1; break_arrives = arrives; }

/* True once that has happened. */
int fake_broke(void) { return break_in == 0; }

/* A device reports an event about an element; one that nobody reads from forgets what is too much.
 * After its death it is as new to those who open it then. */
void fake_event(int device, int type, long element) {
  struct ibv_async_event e;
  memset(&e, 0, sizeof e);
  e.element.qp = (void *)element;
  e.event_type = type;
  if (type == IBV_EVENT_DEVICE_FATAL) devices[device].deaths++;
  if (write(devices[device].events[1], &e, sizeof e) != sizeof e && errno != EAGAIN) abort();
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
