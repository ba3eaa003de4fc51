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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_query_gid_table

enum { DEVICES = 4, QPS = 1024, MRS = 4096, CQ_ENTRIES = 1 << 14, GIDS = 300, LOG_BYTES = 1 << 20 };

struct fake_gid { uint8_t raw[16]; uint32_t type; };

struct fake_device {
  struct ibv_device device;
  int state, layer, mtu, ports, lid;
  uint8_t speeds[8];
  unsigned down;
  int deaths;
  int events[2];
  struct fake_gid gids[GIDS];
};

/* Of a device as it was before its next death. */
struct fake_context { struct ibv_context context; int deaths; };

struct fake_cq { struct ibv_cq cq; struct ibv_wc wc[CQ_ENTRIES]; unsigned head, tail; };

/* Memory of a dma-buf is mapped once more, a little before its first byte; else null. */
struct fake_mr { struct ibv_mr mr; char *mapped; size_t before; };

struct fake_waiting { struct ibv_wc wc; struct fake_waiting *next; };

struct fake_qp {
  struct ibv_qp qp;
  int state, receives, port;
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
static struct fake_mr *mrs[MRS];
static uint32_t next_qp, next_key;
static _Atomic int live; // several threads make and free
static char calls[LOG_BYTES];
static size_t calls_length;
static char fail_call[64];
static int fail_errno, fail_after, fail_once;
static int wc_status, wc_after;
static uint64_t lost_from;
static uint64_t chance;
static unsigned chaos;
static int break_in, break_arrives;

#include "fakeverbs/test.c"
#include "fakeverbs/record.c"
#include "fakeverbs/device.c"
#include "fakeverbs/object.c"
#include "fakeverbs/data.c"
