// The last error: of the calling thread if it had one, else of the process.
#include "bridge.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 4096 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[TEXT_BYTES];
static __thread char own[TEXT_BYTES];
static __thread bool had;  // an error of its own

void renew_errors(void) { pthread_mutex_init(&lock, NULL); }

static void keep(void) {
  had = true;
  pthread_mutex_lock(&lock);
  memcpy(last, own, sizeof last);
  pthread_mutex_unlock(&lock);
}

ncclResult_t fail(ncclResult_t code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(own, sizeof own, format, arguments);
  va_end(arguments);
  keep();
  return code;
}

ncclResult_t null_argument(const char* function, const char* argument) {
  return fail(ncclInvalidArgument, "%s: %s is NULL. Remedy: pass an address", function, argument);
}

// An exception that Java's side did not catch leaves no code.
static bool is_thrown(JNIEnv* env) {
  if (!(*env)->ExceptionCheck(env)) return false;
  (*env)->ExceptionClear(env);
  return true;
}

ncclResult_t result_of(JNIEnv* env, jint code) {
  if (__builtin_expect(code == ncclSuccess, 1) && !(*env)->ExceptionCheck(env)) return ncclSuccess;
  if (is_thrown(env))
    return fail(ncclInternalError, "a call of nccl4j threw. Remedy: report this");
  if (code == ncclInProgress) return ncclInProgress;
  jstring text = CALL(env, Object, lastError);
  if (is_thrown(env) || !text) return fail(code, "result %d, and no text of it can be had", code);
  jsize units = (*env)->GetStringLength(env, text);
  if (units > TEXT_BYTES / 3 - 1) units = TEXT_BYTES / 3 - 1;  // at most 3 bytes each
  memset(own, 0, sizeof own);
  (*env)->GetStringUTFRegion(env, text, 0, units, own);
  (*env)->DeleteLocalRef(env, text);
  keep();
  return code;
}

ncclResult_t fail_group(ncclResult_t code) {
  JNIEnv* env = is_running() ? enter_frame() : NULL;
  if (!env) return code;
  CALL(env, Void, failGroup, (*env)->NewStringUTF(env, own));
  is_thrown(env);
  leave_frame(env);
  return code;
}

ncclResult_t value_of(JNIEnv* env, jlong value, jlong* into) {
  if (value < 0 || (*env)->ExceptionCheck(env)) return result_of(env, (jint)-value);
  *into = value;
  return ncclSuccess;
}

API(const char*, ncclGetErrorString, (ncclResult_t result)) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (ncclGetLastError has the call)";
    case ncclSystemError: return "unhandled system error (ncclGetLastError has the call)";
    case ncclInternalError: return "internal error (a defect of nccl4j: report it)";
    case ncclInvalidArgument: return "invalid argument (ncclGetLastError names it)";
    case ncclInvalidUsage: return "invalid usage (ncclGetLastError has the reason)";
    case ncclRemoteError: return "remote process exited, or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    case ncclTimeout: return "timeout";
  }
  return "unknown result code";
}

API(const char*, ncclGetLastError, (ncclComm_t comm)) {
  (void)comm;
  if (!had) {
    pthread_mutex_lock(&lock);
    memcpy(own, last, sizeof own);
    pthread_mutex_unlock(&lock);
  }
  return own;
}

API(ncclResult_t, ncclGetVersion, (int* version)) {
  NOT_NULL(version);
  *version = VERSION;
  return ncclSuccess;
}

// NCCL reads its logging's variables again here; ours are read at each creation.
API(void, ncclResetDebugInit, (void)) {}

// The debug log is Java's, and is read once.
API(void, ncclResetDebugInitInternal, (void)) {}
