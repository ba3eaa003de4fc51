/* announced DEVICE BYTES COUNT DEPTH MICROS: what the InfiniBand network does for a message, in C and
 * no more: a process announces each receive by a write of 64 bytes, another answers with a write of
 * BYTES with immediate. DEPTH messages are under way; who waits sleeps for MICROS. Prints MB/s of the
 * second half, with GID 1 and MTU 4096. The limit for nccl4j where both ends share a processor; see
 * bandwidth.sh. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 64, ENTRY = 64 };

struct end { uint32_t qpn, data_key, slots_key; union ibv_gid gid; uint64_t data, slots; };

static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_mr *data_mr, *slots_mr;
static char *data, *slots;
static struct end other;
static int depth, micros;
static long bytes, count;

static void need(int good, const char *what) {
  if (good) return;
  perror(what);
  exit(1);
}

static void pause_a_while(void) {
  struct timespec t = {0, micros * 1000};
  nanosleep(&t, NULL);
}

static void make(const char *name, struct end *own) {
  int n;
  struct ibv_device **list = ibv_get_device_list(&n);
  struct ibv_context *context = NULL;
  for (int i = 0; i < n; i++)
    if (strcmp(ibv_get_device_name(list[i]), name) == 0) context = ibv_open_device(list[i]);
  need(context != NULL, name);
  struct ibv_pd *pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 1024, NULL, NULL, 0);
  data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  slots = aligned_alloc(4096, SLOTS * ENTRY);
  memset(slots, 0, SLOTS * ENTRY);
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  data_mr = ibv_reg_mr(pd, data, bytes, access);
  slots_mr = ibv_reg_mr(pd, slots, SLOTS * ENTRY, access);
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
  init.cap.max_send_wr = init.cap.max_recv_wr = 2 * SLOTS;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  need(cq && data_mr && slots_mr && (qp = ibv_create_qp(pd, &init)) != NULL, "resources");
  own->qpn = qp->qp_num;
  own->data_key = data_mr->rkey;
  own->slots_key = slots_mr->rkey;
  own->data = (uint64_t)data;
  own->slots = (uint64_t)slots;
  need(ibv_query_gid(context, 1, 1, &own->gid) == 0, "GID 1");
}

static void join_other(void) {
  struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
  a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = other.qpn};
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 12;
  a.ah_attr.port_num = 1;
  a.ah_attr.is_global = 1;
  a.ah_attr.grh.dgid = other.gid;
  a.ah_attr.grh.sgid_index = 1;
  a.ah_attr.grh.hop_limit = 255;
  need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
                                  | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
  a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN
                                  | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void post(long from, uint32_t length, uint32_t key, uint64_t to, uint32_t rkey, int with_immediate) {
  struct ibv_sge sge = {from, length, key};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
  wr.opcode = with_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = to;
  wr.wr.rdma.rkey = rkey;
  need(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

/* Completions of one kind that are there. */
static int completed(enum ibv_wc_opcode kind) {
  struct ibv_wc wc[16];
  int n = ibv_poll_cq(cq, 16, wc), of_kind = 0;
  for (int i = 0; i < n; i++) {
    if (wc[i].status) fprintf(stderr, "%s\n", ibv_wc_status_str(wc[i].status)), exit(1);
    of_kind += wc[i].opcode == kind;
  }
  return of_kind;
}

static void receive(void) {
  struct ibv_recv_wr wr = {0}, *bad;
  for (long posted = 0, got = 0; got < count;) {
    int n = completed(IBV_WC_RECV_RDMA_WITH_IMM);
    got += n;
    if (n == 0 && (posted == count || posted == got + depth)) pause_a_while();
    for (; posted < count && posted < got + depth; posted++) {
      long at = posted % SLOTS * ENTRY;
      need(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
      *(volatile long *)(slots + at + 24) = posted + 1;
      post((long)slots + at, ENTRY, slots_mr->lkey, other.slots + at, other.slots_key, 0);
    }
  }
}

static void send_all(void) {
  struct timespec t;
  double begin = 0;
  for (long sent = 0, done = 0; done < count;) {
    int n = completed(IBV_WC_RDMA_WRITE);
    done += n;
    int posted = 0;
    while (sent < count && sent < done + depth
           && __atomic_load_n((long *)(slots + sent % SLOTS * ENTRY + 24), __ATOMIC_ACQUIRE) == sent + 1) {
      if (sent++ == count / 2) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        begin = t.tv_sec + t.tv_nsec / 1e9;
      }
      post((long)data, bytes, data_mr->lkey, other.data, other.data_key, 1);
      posted = 1;
    }
    if (n == 0 && !posted) pause_a_while();
  }
  clock_gettime(CLOCK_MONOTONIC, &t);
  printf("%.1f\n", bytes * (count - count / 2) / (t.tv_sec + t.tv_nsec / 1e9 - begin) / 1e6);
}

int main(int argc, char **argv) {
  need(argc == 6, "announced DEVICE BYTES COUNT DEPTH MICROS");
  bytes = atol(argv[2]);
  count = atol(argv[3]);
  depth = atoi(argv[4]);
  micros = atoi(argv[5]);
  int there[2], back[2];
  struct end own;
  need(pipe(there) == 0 && pipe(back) == 0, "pipe");
  pid_t child = fork();
  make(argv[1], &own);
  int out = child ? there[1] : back[1], in = child ? back[0] : there[0];
  need(write(out, &own, sizeof own) == sizeof own && read(in, &other, sizeof other) == sizeof other, "exchange");
  join_other();
  char ready = 1;
  need(write(out, &ready, 1) == 1 && read(in, &ready, 1) == 1, "exchange");
  if (!child) {
    receive();
    read(in, &ready, 1);
    return 0;
  }
  send_all();
  int status;
  need(write(out, &ready, 1) == 1 && waitpid(child, &status, 0) == child && status == 0, "the receiver");
  return 0;
}
