// A libcuda.so.1 for tests without a GPU: records every call with its arguments, keeps count of what
// lives, and fails the call that a test names. "Device" memory is the host's. Compiled against the
// real cuda.h, so its signatures are the driver's.
#define _GNU_SOURCE
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

// Each part uses those before it.
#include "fakecuda/record.c"
#include "fakecuda/capture.c"
#include "fakecuda/device.c"
#include "fakecuda/memory.c"
#include "fakecuda/stream.c"
#include "fakecuda/physical.c"
#include "fakecuda/multicast.c"
#include "fakecuda/shared.c"
