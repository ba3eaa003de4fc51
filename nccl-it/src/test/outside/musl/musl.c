// Checks, in a program of musl, what nccl4j asks of a C library: the lines of Asked.java on standard
// input, and the layouts of struct msghdr that Datagram.java writes. Argument: jffi's library, which
// the loader of musl must load with all its symbols.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000  // of the kernel since 4.17, newer than some musl's header
#endif

// The 64-bit words that Datagram.java writes; musl has int and padding for some of them.
_Static_assert(offsetof(struct msghdr, msg_name) == 0, "msg_name");
_Static_assert(offsetof(struct msghdr, msg_namelen) == 8, "msg_namelen");
_Static_assert(offsetof(struct msghdr, msg_iov) == 16, "msg_iov");
_Static_assert(offsetof(struct msghdr, msg_iovlen) == 24, "msg_iovlen");
_Static_assert(offsetof(struct msghdr, msg_control) == 32, "msg_control");
_Static_assert(offsetof(struct cmsghdr, cmsg_len) == 0, "cmsg_len");
_Static_assert(offsetof(struct cmsghdr, cmsg_level) == 8, "cmsg_level");
_Static_assert(offsetof(struct cmsghdr, cmsg_type) == 12, "cmsg_type");
_Static_assert(offsetof(struct sockaddr_un, sun_path) == 2, "sun_path");
_Static_assert(offsetof(struct ucred, pid) == 0, "pid");
_Static_assert(offsetof(struct ucred, uid) == 4, "uid");
_Static_assert(sizeof(off_t) == 8 && sizeof(size_t) == 8, "64 bits");

struct number {
  const char* name;
  long value;
};

static const struct number numbers[] = {
    {"EPERM", EPERM},
    {"ENOENT", ENOENT},
    {"EINTR", EINTR},
    {"EAGAIN", EAGAIN},
    {"EFAULT", EFAULT},
    {"ENOMEM", ENOMEM},
    {"ENFILE", ENFILE},
    {"EMFILE", EMFILE},
    {"ENOSPC", ENOSPC},
    {"ENOBUFS", ENOBUFS},
    {"ETOOMANYREFS", ETOOMANYREFS},
    {"ECONNREFUSED", ECONNREFUSED},
    {"PROT_READ_WRITE", PROT_READ | PROT_WRITE},
    {"PROT_READ_EXECUTE", PROT_READ | PROT_EXEC},
    {"MAP_SHARED", MAP_SHARED},
    {"MAP_PRIVATE_ANONYMOUS_NORESERVE", MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE},
    {"MAP_FIXED", MAP_FIXED},
    {"MAP_FIXED_NOREPLACE", MAP_FIXED_NOREPLACE},
    {"MADV_HUGEPAGE", MADV_HUGEPAGE},
    {"MFD_CLOEXEC_ALLOW_SEALING", MFD_CLOEXEC | MFD_ALLOW_SEALING},
    {"O_RDWR_CLOEXEC", O_RDWR | O_CLOEXEC},
#ifdef __x86_64__
    {"O_TMPFILE_X86", O_TMPFILE},
    {"O_NOFOLLOW_X86", O_NOFOLLOW},
#else
    {"O_TMPFILE_ARM", O_TMPFILE},
    {"O_NOFOLLOW_ARM", O_NOFOLLOW},
#endif
    {"F_DUPFD_CLOEXEC", F_DUPFD_CLOEXEC},
    {"F_ADD_SEALS", F_ADD_SEALS},
    {"SEAL_ALL_BUT_WRITE", F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW},
    {"SEEK_END", SEEK_END},
    {"FALLOC_PUNCH_HOLE_KEEP_SIZE", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
    {"AF_UNIX", AF_UNIX},
    {"SOCK_DGRAM_NONBLOCK_CLOEXEC", SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC},
    {"SOL_SOCKET", SOL_SOCKET},
    {"SO_PASSCRED", SO_PASSCRED},
    {"MSG_DONTWAIT_NOSIGNAL", MSG_DONTWAIT | MSG_NOSIGNAL},
    {"MSG_DONTWAIT_CMSG_CLOEXEC", MSG_DONTWAIT | MSG_CMSG_CLOEXEC},
    {"ADDRESS_BYTES", sizeof(struct sockaddr_un)},
    {"MAX_PATH", sizeof(((struct sockaddr_un*)0)->sun_path) - 1},
    {"MSG_CONTROLLEN", offsetof(struct msghdr, msg_controllen)},
    {"MSG_FLAGS", offsetof(struct msghdr, msg_flags)},
    {"MSG_TRUNC", MSG_TRUNC},
    {"MSG_CTRUNC", MSG_CTRUNC},
    {"SCM_RIGHTS", SCM_RIGHTS},
    {"SCM_CREDENTIALS", SCM_CREDENTIALS},
    {"CMSG_HEADER", sizeof(struct cmsghdr)},
};

// Numbers that the C library does not know: of the other architecture, and places in a block.
static const char* const own[] = {
    "O_TMPFILE_X86", "O_TMPFILE_ARM", "O_NOFOLLOW_X86", "O_NOFOLLOW_ARM", "MAX_PAYLOAD", "IOVEC",
    "ADDRESS",       "CONTROL",       "PAYLOAD",        "MAX_CONTROL",    "BLOCK",
};

static int wrong;

static void check(int right, const char* what, const char* name) {
  if (!right) {
    printf("%s %s: %s\n", what, name, strcmp(what, "number") ? dlerror() : "another one");
    wrong++;
  }
}

// 1 if it is a number of the C library's.
static int checkNumber(const char* name, long value) {
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    if (!strcmp(numbers[i].name, name)) {
      check(numbers[i].value == value, "number", name);
      return 1;
    }
  }
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    if (!strcmp(own[i], name)) return 0;
  }
  printf("number %s: musl.c does not know it\n", name);
  wrong++;
  return 0;
}

int main(int count, char** arguments) {
  char kind[20], name[100];
  long value;
  int files = 0, functions = 0, passed = 0;
  void* process = dlopen(NULL, RTLD_NOW);
  while (scanf("%19s %99s", kind, name) == 2) {
    if (!strcmp(kind, "file")) {
      files += dlopen(name, RTLD_NOW) != NULL;
    } else if (!strcmp(kind, "function")) {
      check(dlsym(process, name) != NULL, kind, name);
      functions++;
    } else if (scanf("%ld", &value) == 1) {
      passed += checkNumber(name, value);
    }
  }
  check(count > 1 && dlopen(arguments[1], RTLD_NOW) != NULL, "library", arguments[1]);
  if (wrong || !files || !functions || !passed) return 1;
  printf("%d file names, %d functions and %d numbers of the C library, and jffi\n", files, functions, passed);
  return 0;
}
