/* Times collectives of an MPI library, on orders from nccl4j's perf.
 *
 * Every rank connects to the port that perf listens on (arguments: address, port, token, bytes of the
 * largest buffer, and "core" if it shall bind itself), says who it is, and then sleeps in read() until the next order comes: a line
 * "workload type op root elements warmup iterations". It answers with the nanoseconds that all
 * iterations took together. It ends when the connection does. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <mpi.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int rank, ranks;
static char *sendBuffer, *recvBuffer;
static int *sendCounts, *sendOffsets, *recvCounts, *recvOffsets;

struct order {
  char workload[32], type[16], op[8];
  int root, warmup, iterations;
  long elements;
};

static void fail(const char *what, const char *which) {
  fprintf(stderr, "mpi_peer: %s: %s\n", what, which);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static MPI_Datatype typeOf(const char *name) {
  if (!strcmp(name, "float")) return MPI_FLOAT;
  if (!strcmp(name, "double")) return MPI_DOUBLE;
  if (!strcmp(name, "int8")) return MPI_INT8_T;
  if (!strcmp(name, "uint8")) return MPI_UINT8_T;
  if (!strcmp(name, "int32")) return MPI_INT32_T;
  if (!strcmp(name, "uint32")) return MPI_UINT32_T;
  if (!strcmp(name, "int64")) return MPI_INT64_T;
  if (!strcmp(name, "uint64")) return MPI_UINT64_T;
  fail("no such type", name);
  return MPI_BYTE;
}

static MPI_Op opOf(const char *name) {
  if (!strcmp(name, "sum")) return MPI_SUM;
  if (!strcmp(name, "prod")) return MPI_PROD;
  if (!strcmp(name, "min")) return MPI_MIN;
  if (!strcmp(name, "max")) return MPI_MAX;
  fail("no such operator", name);
  return MPI_OP_NULL;
}

/* The same rule as VariableCounts.java. */
static int variableCount(int source, int target, long mean) {
  if (ranks == 1) return (int) mean;
  return (int) (mean / 2 + mean * ((source + target) % ranks) / (ranks - 1));
}

static void variableCounts(long mean) {
  for (int peer = 0, sent = 0, received = 0; peer < ranks; peer++) {
    sendCounts[peer] = variableCount(rank, peer, mean);
    recvCounts[peer] = variableCount(peer, rank, mean);
    sendOffsets[peer] = sent;
    recvOffsets[peer] = received;
    sent += sendCounts[peer];
    received += recvCounts[peer];
  }
}

static void hypercube(int part, MPI_Datatype type, int size) {
  memcpy(recvBuffer + (size_t) rank * part * size, sendBuffer, (size_t) part * size);
  for (int step = 1; step < ranks; step <<= 1) {
    int first = rank & -step;
    MPI_Sendrecv(recvBuffer + (size_t) first * part * size, part * step, type, rank ^ step, 0,
                 recvBuffer + (size_t) (first ^ step) * part * size, part * step, type, rank ^ step,
                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

enum workload {
  ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, ALL_TO_ALL, ALL_TO_ALL_V, GATHER,
  SCATTER, SEND_RECV, HYPERCUBE, WORKLOADS
};

static const char *const names[] = {
  "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "alltoallv",
  "gather", "scatter", "sendrecv", "hypercube"
};

static enum workload workloadOf(const char *name) {
  for (int i = 0; i < WORKLOADS; i++) {
    if (!strcmp(name, names[i])) return (enum workload) i;
  }
  fail("no such workload", name);
  return WORKLOADS;
}

static void run(enum workload workload, const struct order *order, int times) {
  MPI_Comm world = MPI_COMM_WORLD;
  MPI_Datatype type = typeOf(order->type);
  MPI_Op op = opOf(order->op);
  int root = order->root;
  int count = (int) order->elements;
  int part = (int) (order->elements / ranks);
  int size;
  MPI_Type_size(type, &size);
  if (workload == ALL_TO_ALL_V) variableCounts(part);
  for (int i = 0; i < times; i++) {
    switch (workload) {
      case ALL_REDUCE:
        MPI_Allreduce(sendBuffer, recvBuffer, count, type, op, world);
        break;
      case ALL_GATHER:
        MPI_Allgather(sendBuffer, part, type, recvBuffer, part, type, world);
        break;
      case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(sendBuffer, recvBuffer, part, type, op, world);
        break;
      case BROADCAST:
        MPI_Bcast(recvBuffer, count, type, root, world);
        break;
      case REDUCE:
        MPI_Reduce(sendBuffer, recvBuffer, count, type, op, root, world);
        break;
      case ALL_TO_ALL:
        MPI_Alltoall(sendBuffer, part, type, recvBuffer, part, type, world);
        break;
      case ALL_TO_ALL_V:
        MPI_Alltoallv(sendBuffer, sendCounts, sendOffsets, type, recvBuffer, recvCounts,
                      recvOffsets, type, world);
        break;
      case GATHER:
        MPI_Gather(sendBuffer, part, type, recvBuffer, part, type, root, world);
        break;
      case SCATTER:
        MPI_Scatter(sendBuffer, part, type, recvBuffer, part, type, root, world);
        break;
      case SEND_RECV:
        MPI_Sendrecv(sendBuffer, count, type, (rank + 1) % ranks, 0, recvBuffer, count, type,
                     (rank + ranks - 1) % ranks, 0, world, MPI_STATUS_IGNORE);
        break;
      default:
        hypercube(part, type, size);
    }
  }
}

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static FILE *dial(const char *host, int port, const char *token) {
  struct sockaddr_in address;
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail("not an address", host);
  address.sin_port = htons((unsigned short) port);
  int connection = socket(AF_INET, SOCK_STREAM, 0);
  if (connection < 0 || connect(connection, (struct sockaddr *) &address, sizeof address)) {
    fail("cannot reach perf", "connect");
  }
  int one = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  dprintf(connection, "%s %d\n", token, rank);
  return fdopen(connection, "r");
}

static char *buffer(size_t bytes) {
  void *memory;
  if (posix_memalign(&memory, 4096, bytes)) fail("not enough memory", "buffer");
  memset(memory, 0, bytes);
  return memory;
}

/* Keeps each rank on a core of its own where there are enough, by the rule of CoreBinding.java. */
static void bindToCore(void) {
  cpu_set_t allowed, mine;
  if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < ranks) return;
  for (int core = 0, seen = 0; core < CPU_SETSIZE; core++) {
    if (CPU_ISSET(core, &allowed) && seen++ == rank) {
      CPU_ZERO(&mine);
      CPU_SET(core, &mine);
      sched_setaffinity(0, sizeof mine, &mine);
      return;
    }
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 6) fail("usage", "mpi_peer HOST PORT TOKEN BYTES core|none");
  if (!strcmp(argv[5], "core")) bindToCore();
  size_t bytes = strtoull(argv[4], NULL, 10) + 4096;
  sendBuffer = buffer(bytes);
  recvBuffer = buffer(bytes);
  sendCounts = calloc(4 * (size_t) ranks, sizeof(int));
  sendOffsets = sendCounts + ranks;
  recvCounts = sendOffsets + ranks;
  recvOffsets = recvCounts + ranks;

  FILE *orders = dial(argv[1], atoi(argv[2]), argv[3]);
  char line[256];
  struct order order;
  while (fgets(line, sizeof line, orders)) {
    if (sscanf(line, "%31s %15s %7s %d %ld %d %d", order.workload, order.type, order.op,
               &order.root, &order.elements, &order.warmup, &order.iterations) != 7) {
      fail("malformed order", line);
    }
    enum workload workload = workloadOf(order.workload);
    run(workload, &order, order.warmup);
    MPI_Barrier(MPI_COMM_WORLD);
    long long start = now();
    run(workload, &order, order.iterations);
    dprintf(fileno(orders), "%lld\n", now() - start);
  }
  MPI_Finalize();
  return 0;
}
