// A network plug-in for NCCL over sockets of the loopback device, for tests: ncclNet of version VERSION.
// It checks what it is called with, so that a wrong argument is an error and not luck. With POINTERS
// it takes memory of the fake driver's GPUs too: by address, or by dma-buf, whose pages it maps.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OK = 0, SYSTEM_ERROR = 2, ARGUMENT = 4, USAGE = 5, REMOTE = 6 };
enum { HOST = 1, CUDA = 2, DMA_BUF = 4, REQUESTS = 32, HANDLE = 128 };
enum { IS_CONTEXT = 0x6c0ffee, IS_LISTENER, IS_SENDER, IS_RECEIVER, IS_REGION };

typedef void (*Logger)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

typedef struct {
  char* name;
  char* path;
  uint64_t guid;
  int pointers, global;
#if VERSION >= 9
  int forceFlush;
#endif
  int speed, port;
  float latency;
  int maxComms, maxReceives, deviceType, deviceVersion;
#if VERSION >= 9
  int virtualDevices, virtualDevice[4];
  size_t maxP2pBytes, maxCollBytes;
#endif
#if VERSION >= 11
  int maxMultiRequest;
#endif
} Properties;

typedef struct {
  int kind, type;
  char* begin;
  size_t bytes;
  char* mapped;  // of a dma-buf the pages of the memory, else null
  size_t before;
  struct Comm* comm;
} Region;

typedef struct {
  int used, done, tag, matched;
  char* data;
  size_t capacity, size, moved;
  uint32_t header[2];
  size_t headerMoved;
  struct Comm* comm;
} Request;

typedef struct Comm {
  int kind, fd;
  Request requests[REQUESTS];
  Request flushes[REQUESTS];
  unsigned begun;    // requests in their order
  unsigned current;  // the sender's next to write
  Request* receiving;
  uint32_t header[2];
  size_t headerMoved;
  int regions;  // that are registered with it
} Comm;

typedef struct {
  int kind, fd;
} Listener;

typedef struct {
  uint32_t magic;
  uint16_t port;
  int fd;  // the connecting side's state
  int dialing;
} Handle;

#ifndef POINTERS
#define POINTERS HOST
#define DEVICE "loop0"
#endif

#ifndef NAME
#define NAME "nccl4j test"
#endif

static int inits;

static int block(int fd) { return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

static int start(Logger log) {
  log(3, 0x10, __FILE__, __LINE__, "a test plug-in begins");
  return OK;
}

#if VERSION >= 11
static int netInit(void** context, uint64_t id, int* config, Logger log, void* profile) {
  if (id == 0 || *config != -1 || profile == NULL) return ARGUMENT;
  int* made = malloc(sizeof *made);
  *made = IS_CONTEXT;
  *context = made;
  inits++;
  return start(log);
}
static int netFinalize(void* context) {
  if (*(int*)context != IS_CONTEXT) return ARGUMENT;
  *(int*)context = 0;
  inits--;
  free(context);
  return OK;
}
#elif VERSION == 10
static int netInit(Logger log, void* profile) {
  if (profile == NULL) return ARGUMENT;
  return inits++ ? USAGE : start(log);
}
#else
static int netInit(Logger log) { return inits++ ? USAGE : start(log); }
#endif

static int netDevices(int* n) {
  *n = inits ? 1 : 0;
  return inits ? OK : USAGE;
}

static int netProperties(int device, Properties* p) {
  if (device != 0) return ARGUMENT;
  memset(p, 0, sizeof *p);
  p->name = DEVICE;
  p->path = NULL;
  p->guid = 42;
  p->pointers = POINTERS;
  p->speed = 10000;
  p->port = 1;
  p->latency = 7.5f;
  p->maxComms = 1 << 16;
  p->maxReceives = 1;
#if VERSION >= 9
  p->maxP2pBytes = p->maxCollBytes = 1 << 28;
#endif
  return OK;
}

static int listenOn(int device, void* handle, void** listener) {
  if (device != 0) return ARGUMENT;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (void*)&address, length) || listen(fd, 16) || block(fd) ||
      getsockname(fd, (void*)&address, &length))
    return SYSTEM_ERROR;
  Handle h = {.magic = 0x4e455450, .port = address.sin_port, .fd = -1};
  memset(handle, 0, HANDLE);
  memcpy(handle, &h, sizeof h);
  Listener* made = malloc(sizeof *made);
  made->kind = IS_LISTENER;
  made->fd = fd;
  *listener = made;
  return OK;
}

static Comm* comm(int kind, int fd) {
  Comm* made = calloc(1, sizeof *made);
  made->kind = kind;
  made->fd = fd;
  return made;
}

// Begins to connect in the first call, and keeps what it has begun in the handle.
static int connectFrom(int device, void* handle, void** sender) {
  Handle* h = handle;
  *sender = NULL;
  if (device != 0 || h->magic != 0x4e455450) return ARGUMENT;
  if (!h->dialing) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = h->port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (h->fd < 0 || block(h->fd)) return SYSTEM_ERROR;
    if (connect(h->fd, (void*)&address, sizeof address) && errno != EINPROGRESS) return SYSTEM_ERROR;
    h->dialing = 1;
    return OK;
  }
  struct pollfd p = {.fd = h->fd, .events = POLLOUT};
  if (poll(&p, 1, 0) != 1) return OK;
  if (p.revents & (POLLERR | POLLHUP)) return REMOTE;
  *sender = comm(IS_SENDER, h->fd);
  return OK;
}

#if VERSION >= 11
static int netListen(void* context, int device, void* handle, void** listener) {
  return *(int*)context == IS_CONTEXT ? listenOn(device, handle, listener) : ARGUMENT;
}
static int netConnect(void* context, int device, void* handle, void** sender, void** offload) {
  return *(int*)context == IS_CONTEXT && *offload == NULL ? connectFrom(device, handle, sender) : ARGUMENT;
}
#else
static int netListen(int device, void* handle, void** listener) { return listenOn(device, handle, listener); }
#if VERSION == 10
static int netConnect(int device, int* config, void* handle, void** sender, void** offload) {
  return *config == -1 && *offload == NULL ? connectFrom(device, handle, sender) : ARGUMENT;
}
#else
static int netConnect(int device, void* handle, void** sender, void** offload) {
  return *offload == NULL ? connectFrom(device, handle, sender) : ARGUMENT;
}
#endif
#endif

static int netAccept(void* listener, void** receiver, void** offload) {
  Listener* l = listener;
  *receiver = NULL;
  if (l->kind != IS_LISTENER || *offload != NULL) return ARGUMENT;
  int fd = accept(l->fd, NULL, NULL);
  if (fd < 0) return errno == EAGAIN ? OK : SYSTEM_ERROR;
  if (block(fd)) return SYSTEM_ERROR;
  *receiver = comm(IS_RECEIVER, fd);
  return OK;
}

static Region* region(Comm* c, void* data, size_t bytes, int type) {
  Region* made = malloc(sizeof *made);
  *made = (Region){.kind = IS_REGION, .type = type, .begin = data, .bytes = bytes, .comm = c};
  c->regions++;
  return made;
}

static int netRegister(void* comm, void* data, size_t bytes, int type, void** handle) {
  int takes = type == HOST || (type == CUDA && (POINTERS & CUDA));
  if (((Comm*)comm)->kind < IS_SENDER || !takes || data == NULL) return ARGUMENT;
  *handle = region(comm, data, bytes, type);
  return OK;
}

static int netRegisterDmaBuf(void* comm, void* data, size_t bytes, int type, uint64_t offset, int fd, void** handle) {
  if (((Comm*)comm)->kind < IS_SENDER || type != CUDA || !(POINTERS & DMA_BUF)) return ARGUMENT;
  // A dma-buf of the fake driver is a file, at the position where it begins.
  off_t begin = lseek(fd, 0, SEEK_CUR) + (off_t)offset;
  Region* made = region(comm, data, bytes, type);
  made->before = (size_t)begin & 4095;
  made->mapped =
      mmap(NULL, made->before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, begin - (off_t)made->before);
  if (made->mapped == MAP_FAILED) return SYSTEM_ERROR;
  *handle = made;
  return OK;
}

static int netDeregister(void* comm, void* handle) {
  Region* region = handle;
  if (((Comm*)comm)->kind < IS_SENDER || region->kind != IS_REGION || region->comm != comm) return ARGUMENT;
  region->kind = 0;
  region->comm->regions--;
  if (region->mapped != NULL) munmap(region->mapped, region->before + region->bytes);
  free(region);
  return OK;
}

static int holds(Region* region, char* data, size_t bytes) {
  return region != NULL && region->kind == IS_REGION && data >= region->begin &&
         data + bytes <= region->begin + region->bytes;
}

static int begin(Comm* c, char* data, size_t bytes, int tag, Region* region, void** request) {
  *request = NULL;
  if (!holds(region, data, bytes)) return ARGUMENT;
  Request* r = &c->requests[c->begun % REQUESTS];
  if (r->used) return OK;
  if (region->mapped != NULL) data = region->mapped + region->before + (data - region->begin);
  *r = (Request){.used = 1, .tag = tag, .data = data, .capacity = bytes, .size = bytes, .comm = c};
  r->header[0] = (uint32_t)tag;
  r->header[1] = (uint32_t)bytes;
  c->begun++;
  *request = r;
  return OK;
}

// Moves bytes either way; *moved of all are done. 1: all, 0: not yet, -1: the other side is gone.
static int move(int sends, int fd, void* data, size_t all, size_t* moved) {
  while (*moved < all) {
    ssize_t n = sends ? send(fd, (char*)data + *moved, all - *moved, MSG_NOSIGNAL)
                      : recv(fd, (char*)data + *moved, all - *moved, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n <= 0) return -1;
    *moved += (size_t)n;
  }
  return 1;
}

static int goOnSending(Comm* c) {
  while (c->current != c->begun) {
    Request* r = &c->requests[c->current % REQUESTS];
    int state = move(1, c->fd, r->header, sizeof r->header, &r->headerMoved);
    if (state == 1) state = move(1, c->fd, r->data, r->size, &r->moved);
    if (state != 1) return state < 0 ? REMOTE : OK;
    r->done = 1;
    c->current++;
  }
  return OK;
}

static int goOnReceiving(Comm* c) {
  for (;;) {
    if (c->receiving == NULL) {
      int state = move(0, c->fd, c->header, sizeof c->header, &c->headerMoved);
      if (state != 1) return state < 0 ? REMOTE : OK;
      unsigned first = c->begun < REQUESTS ? 0 : c->begun - REQUESTS;
      for (unsigned i = first; i < c->begun && c->receiving == NULL; i++) {
        Request* r = &c->requests[i % REQUESTS];
        if (r->used && !r->done && !r->matched && r->tag == (int)c->header[0]) c->receiving = r;
      }
      if (c->receiving == NULL) return OK;  // nobody awaits it yet
      if (c->header[1] > c->receiving->capacity) return ARGUMENT;
      c->receiving->matched = 1;
      c->receiving->size = c->header[1];
    }
    Request* r = c->receiving;
    int state = move(0, c->fd, r->data, r->size, &r->moved);
    if (state != 1) return state < 0 ? REMOTE : OK;
    r->done = 1;
    c->receiving = NULL;
    c->headerMoved = 0;
  }
}

static int sends(void* comm, void* data, size_t bytes, int tag, void* handle, void** request) {
  return ((Comm*)comm)->kind == IS_SENDER ? begin(comm, data, bytes, tag, handle, request) : ARGUMENT;
}

static int receives(void* comm, int n, void** data, size_t bytes, int* tags, void** handles, void** request) {
  if (((Comm*)comm)->kind != IS_RECEIVER || n != 1) return ARGUMENT;
  return begin(comm, data[0], bytes, tags[0], handles[0], request);
}

#if VERSION == 8
static int netSend(void* comm, void* data, int bytes, int tag, void* handle, void** request) {
  return sends(comm, data, (size_t)bytes, tag, handle, request);
}
static int netRecv(void* comm, int n, void** data, int* bytes, int* tags, void** handles, void** request) {
  return receives(comm, n, data, (size_t)bytes[0], tags, handles, request);
}
#elif VERSION == 9
static int netSend(void* comm, void* data, size_t bytes, int tag, void* handle, void** request) {
  return sends(comm, data, bytes, tag, handle, request);
}
static int netRecv(void* comm, int n, void** data, size_t* bytes, int* tags, void** handles, void** request) {
  return receives(comm, n, data, bytes[0], tags, handles, request);
}
#else
static int netSend(void* comm, void* data, size_t bytes, int tag, void* handle, void* profile, void** request) {
  return profile == NULL ? sends(comm, data, bytes, tag, handle, request) : ARGUMENT;
}
static int netRecv(void* comm, int n, void** data, size_t* bytes, int* tags, void** handles, void** profiles,
                   void** request) {
  return profiles == NULL ? receives(comm, n, data, bytes[0], tags, handles, request) : ARGUMENT;
}
#endif

static int netFlush(void* comm, int n, void** data, int* bytes, void** handles, void** request) {
  *request = NULL;
  Region* region = handles[0];
  if (((Comm*)comm)->kind != IS_RECEIVER || n != 1 || region->type != CUDA) return USAGE;
  if (!holds(region, data[0], (size_t)bytes[0])) return ARGUMENT;
  for (int i = 0; i < REQUESTS && *request == NULL; i++) {
    Request* r = &((Comm*)comm)->flushes[i];
    if (r->used) continue;
    *r = (Request){.used = 1, .done = 1, .comm = comm};
    *request = r;
  }
  return OK;
}

static int netTest(void* request, int* done, int* sizes) {
  Request* r = request;
  *done = 0;
  if (!r->used) return USAGE;
  if (!r->done) {
    int result = r->comm->kind == IS_SENDER ? goOnSending(r->comm) : goOnReceiving(r->comm);
    if (result != OK && !r->done) return result;
  }
  if (!r->done) return OK;
  *done = 1;
  if (sizes != NULL) sizes[0] = (int)r->size;
  r->used = 0;
  return OK;
}

static int end(Comm* c, int kind) {
  if (c->kind != kind || c->regions != 0) return ARGUMENT;
  close(c->fd);
  c->kind = 0;
  free(c);
  return OK;
}
static int netCloseSend(void* comm) { return end(comm, IS_SENDER); }
static int netCloseRecv(void* comm) { return end(comm, IS_RECEIVER); }
static int netCloseListen(void* listener) {
  close(((Listener*)listener)->fd);
  free(listener);
  return OK;
}

#define SYMBOL_OF(version) ncclNetPlugin_v##version
#define SYMBOL(version) SYMBOL_OF(version)
__attribute__((visibility("default"))) void* SYMBOL(VERSION)[] = {
    NAME, netInit,      netDevices,    netProperties, netListen, netConnect, netAccept,
    netRegister,   netRegisterDmaBuf, netDeregister, netSend, netRecv,   netFlush,   netTest,
    netCloseSend,  netCloseRecv, netCloseListen, NULL, NULL,
#if VERSION >= 9
    NULL,
#endif
#if VERSION >= 11
    netFinalize,   NULL,
#endif
};
