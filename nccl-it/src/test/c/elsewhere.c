// Preloaded into a JVM: from its first look at /nccl4j-elsewhere on, the files that only Linux has
// are not there. Each of these that is asked for is a line in the file that ELSEWHERE names.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile int begun;

static int hidden(const char* path) {
  static const char* const linux_only[] = {"/proc", "/sys", "/dev/shm", "/dev/infiniband"};
  if (!path) return 0;
  if (strcmp(path, "/nccl4j-elsewhere") == 0) begun = 1;
  if (!begun) return 0;
  for (int i = 0; i < 4; i++) {
    if (strncmp(path, linux_only[i], strlen(linux_only[i])) == 0) {
      FILE* log = fopen(getenv("ELSEWHERE"), "a");
      if (log) {
        fprintf(log, "%s\n", path);
        fclose(log);
      }
      errno = ENOENT;
      return 1;
    }
  }
  return 0;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                            \
  int name(const char* path, int flags, ...) { \
    va_list more;                             \
    va_start(more, flags);                    \
    int mode = va_arg(more, int);             \
    va_end(more);                             \
    return hidden(path) ? -1 : NEXT(name)(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                \
  int name(int at, const char* path, int flags, ...) { \
    va_list more;                                   \
    va_start(more, flags);                          \
    int mode = va_arg(more, int);                   \
    va_end(more);                                   \
    return hidden(path) ? -1 : NEXT(name)(at, path, flags, mode); \
  }
OPENAT(openat)
OPENAT(openat64)

int stat(const char* path, struct stat* s) { return hidden(path) ? -1 : NEXT(stat)(path, s); }
int stat64(const char* path, struct stat64* s) { return hidden(path) ? -1 : NEXT(stat64)(path, s); }
int lstat64(const char* path, struct stat64* s) { return hidden(path) ? -1 : NEXT(lstat64)(path, s); }
int statx(int at, const char* path, int flags, unsigned mask, struct statx* s) {
  return hidden(path) ? -1 : NEXT(statx)(at, path, flags, mask, s);
}
int access(const char* path, int mode) { return hidden(path) ? -1 : NEXT(access)(path, mode); }
ssize_t readlink(const char* path, char* to, size_t n) { return hidden(path) ? -1 : NEXT(readlink)(path, to, n); }
DIR* opendir(const char* path) { return hidden(path) ? NULL : NEXT(opendir)(path); }
