// NCCL's parameters: the settings of nccl4j, by name.
#define _GNU_SOURCE
#include "bridge.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 128, TEXT_BYTES = 4096, MOST_HANDLES = 1024 };

// Names that were bound; never taken back. A handle is its place, counted from 1.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char bound[MOST_HANDLES][NAME_BYTES];
static int n_bound;

void renew_parameters(void) { pthread_mutex_init(&lock, NULL); }

static __thread char by_handle[TEXT_BYTES], by_name[TEXT_BYTES];

// The parts of a parameter's value: its text, and a text if it is a number or a flag.
enum { TEXT, IS_NUMBER, PARTS };

static ncclResult_t read_kind(const char* name, char* into, bool* is_number) {
  JNIEnv* env = enter_frame();
  if (!env) return ncclSystemError;
  jobjectArray parts =
      (*env)->NewObjectArray(env, PARTS, (*env)->FindClass(env, "java/lang/String"), NULL);
  jstring asked = (*env)->NewStringUTF(env, name);
  ncclResult_t result = parts && asked ? result_of(env, CALL(env, Int, parameter, asked, parts))
                                       : result_of(env, ncclSystemError);
  if (!result) {
    jstring text = (*env)->GetObjectArrayElement(env, parts, TEXT);
    const char* found = (*env)->GetStringUTFChars(env, text, NULL);
    snprintf(into, TEXT_BYTES, "%s", found ? found : "");
    if (found) (*env)->ReleaseStringUTFChars(env, text, found);
    *is_number = (*env)->GetObjectArrayElement(env, parts, IS_NUMBER) != NULL;
  }
  leave_frame(env);
  return result;
}

static ncclResult_t read(const char* name, char* into) {
  bool unused;
  return read_kind(name, into, &unused);
}

API(ncclResult_t, ncclParamBind, (ncclParamHandle_t* out, const char* key)) {
  NOT_NULL(out);
  NOT_NULL(key);
  ncclResult_t result = read(key, by_handle);
  if (result) return result;
  pthread_mutex_lock(&lock);
  int place = 0;
  while (place < n_bound && strcmp(bound[place], key)) place++;
  if (place < MOST_HANDLES && place == n_bound) snprintf(bound[n_bound++], NAME_BYTES, "%s", key);
  pthread_mutex_unlock(&lock);
  *out = (ncclParamHandle_t)(intptr_t)(place + 1);
  return ncclSuccess;
}

static ncclResult_t value_and_kind(ncclParamHandle_t handle, char* into, bool* is_number) {
  intptr_t place = (intptr_t)handle - 1;
  pthread_mutex_lock(&lock);
  bool known = place >= 0 && place < n_bound;
  pthread_mutex_unlock(&lock);
  if (!known)
    return fail(ncclInvalidArgument, "%p is not the handle of a parameter. Remedy: pass one of "
                "ncclParamBind", (void*)handle);
  return read_kind(bound[place], into, is_number);
}

static ncclResult_t value(ncclParamHandle_t handle, char* into) {
  bool unused;
  return value_and_kind(handle, into, &unused);
}

API(ncclResult_t, ncclParamGetStr, (ncclParamHandle_t h, const char** out)) {
  NOT_NULL(out);
  ncclResult_t result = value(h, by_handle);
  if (!result) *out = by_handle;
  return result;
}

// A number or a flag as an int64_t, as NCCL keeps them; else the text with its 0. A number for which
// the library chooses has an empty text.
API(ncclResult_t, ncclParamGet, (ncclParamHandle_t h, void* out, int maxLen, int* len)) {
  NOT_NULL(out);
  NOT_NULL(len);
  *len = 0;
  bool is_number;
  ncclResult_t result = value_and_kind(h, by_handle, &is_number);
  if (result) return result;
  int64_t number = strtoll(by_handle, NULL, 10);
  bool binary = is_number && *by_handle;
  int bytes = binary ? (int)sizeof number : (int)strlen(by_handle) + 1;
  if (bytes > maxLen)
    return fail(ncclInvalidArgument, "a parameter of %d bytes does not fit into %d. Remedy: pass a "
                "larger buffer", bytes, maxLen);
  memcpy(out, binary ? (const void*)&number : by_handle, bytes);
  *len = bytes;
  return ncclSuccess;
}

static ncclResult_t not_whole(const char* text, const char* type) {
  return fail(ncclInvalidArgument, "the parameter's value \"%s\" is not a number of %s. Remedy: read "
              "it with ncclParamGetStr", text, type);
}

#define GETTER(suffix, type, wide, parse)                                              \
  API(ncclResult_t, ncclParamGet##suffix, (ncclParamHandle_t h, type* out)) {          \
    NOT_NULL(out);                                                                     \
    ncclResult_t result = value(h, by_handle);                                         \
    if (result) return result;                                                         \
    char* end;                                                                         \
    errno = 0;                                                                         \
    wide number = parse(by_handle, &end, 0);                                           \
    if (errno || end == by_handle || *end || (wide)(type)number != number)             \
      return not_whole(by_handle, #type);                                              \
    *out = (type)number;                                                               \
    return ncclSuccess;                                                                \
  }
GETTER(I8, int8_t, long long, strtoll)
GETTER(I16, int16_t, long long, strtoll)
GETTER(I32, int32_t, long long, strtoll)
GETTER(I64, int64_t, long long, strtoll)
GETTER(U8, uint8_t, unsigned long long, strtoull)
GETTER(U16, uint16_t, unsigned long long, strtoull)
GETTER(U32, uint32_t, unsigned long long, strtoull)
GETTER(U64, uint64_t, unsigned long long, strtoull)

API(ncclResult_t, ncclParamGetParameter, (const char* key, const char** value, int* valueLen)) {
  NOT_NULL(key);
  NOT_NULL(value);
  NOT_NULL(valueLen);
  *value = NULL;
  *valueLen = 0;
  ncclResult_t result = read(key, by_name);
  if (result) return result;
  *value = by_name;
  *valueLen = (int)strlen(by_name);
  return ncclSuccess;
}

// All names; made once.
static const char** names;
static int n_names;

static ncclResult_t read_names(void) {
  JNIEnv* env = enter_frame();
  if (!env) return ncclSystemError;
  pthread_mutex_lock(&lock);
  jobjectArray all = names ? NULL : CALL(env, Object, parameters);
  if (all) {
    n_names = (*env)->GetArrayLength(env, all);
    names = calloc(n_names + 1, sizeof *names);
    for (int i = 0; names && i < n_names; i++) {
      jstring name = (*env)->GetObjectArrayElement(env, all, i);
      const char* found = (*env)->GetStringUTFChars(env, name, NULL);
      names[i] = strdup(found ? found : "");
      if (found) (*env)->ReleaseStringUTFChars(env, name, found);
      (*env)->DeleteLocalRef(env, name);
    }
  }
  ncclResult_t result = names ? ncclSuccess : result_of(env, ncclSystemError);
  pthread_mutex_unlock(&lock);
  leave_frame(env);
  return result;
}

API(ncclResult_t, ncclParamGetAllParameterKeys, (const char*** table, int* tableLen)) {
  NOT_NULL(table);
  NOT_NULL(tableLen);
  ncclResult_t result = read_names();
  if (result) return result;
  *table = names;
  *tableLen = n_names;
  return ncclSuccess;
}

API(void, ncclParamDumpAll, (void)) {
  if (read_names()) return;
  for (int i = 0; i < n_names; i++)
    if (!read(names[i], by_handle)) fprintf(stderr, "%s=%s\n", names[i], by_handle);
}
