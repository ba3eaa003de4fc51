// Memory, registrations, windows, and one-sided operations.
#include "config.h"

API(ncclResult_t, ncclMemAlloc, (void** ptr, size_t size)) {
  NOT_NULL(ptr);
  *ptr = NULL;
  int gpu = current_gpu();
  JNIEnv* env = enter();
  if (!env) return ncclSystemError;
  jlong address = 0;
  ncclResult_t result = value_of(env, CALL(env, Long, allocate, (jint)gpu, (jlong)size), &address);
  *ptr = (void*)(intptr_t)address;
  return result;
}

API(ncclResult_t, ncclMemFree, (void* ptr)) {
  if (!ptr) return ncclSuccess;
  JNIEnv* env = enter();
  return env ? result_of(env, CALL(env, Int, free, handle_of(ptr))) : ncclSystemError;
}

static ncclResult_t reg(ncclComm_t comm, const void* buff, size_t size, bool window, bool symmetric,
                        void** handle) {
  JNIEnv* env = enter();
  if (!env) return ncclSystemError;
  jlong made = 0;
  ncclResult_t result = value_of(env, CALL(env, Long, register, handle_of(comm), handle_of(buff),
                                           (jlong)size, (jboolean)window, (jboolean)symmetric),
                                 &made);
  *handle = (void*)(intptr_t)made;
  return result;
}

static ncclResult_t dereg(ncclComm_t comm, const void* handle, bool window) {
  JNIEnv* env = enter();
  return env ? result_of(env, CALL(env, Int, deregister, handle_of(comm), handle_of(handle),
                                   (jboolean)window))
             : ncclSystemError;
}

API(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle)) {
  NOT_NULL(comm);
  NOT_NULL(buff);
  NOT_NULL(handle);
  return reg(comm, buff, size, false, false, handle);
}

// A program may deregister what a NULL handle stands for.
API(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void* handle)) {
  NOT_NULL(comm);
  return handle ? dereg(comm, handle, false) : ncclSuccess;
}

API(ncclResult_t, ncclCommWindowRegister,
    (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags)) {
  CALL_NEEDS(comm);
  CALL_NEEDS(buff);
  CALL_NEEDS(win);
  if (winFlags & ~(WINDOW_SYMMETRIC | WINDOW_STRICT_ORDERING))
    return fail_group(fail(ncclInvalidArgument, "a window is registered with the flags %d. Remedy: "
                           "pass NCCL_WIN_DEFAULT, NCCL_WIN_COLL_SYMMETRIC or "
                           "NCCL_WIN_STRICT_ORDERING", winFlags));
  return reg(comm, buff, size, true, winFlags & WINDOW_SYMMETRIC, (void**)win);
}

API(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win)) {
  CALL_NEEDS(comm);
  return win ? dereg(comm, win, true) : ncclSuccess;
}

static ncclResult_t address_of(JNIEnv* env, jlong value, void** into) {
  jlong address = 0;
  ncclResult_t result = value_of(env, value, &address);
  *into = (void*)(intptr_t)address;
  return result;
}

API(ncclResult_t, ncclWinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void** outUserPtr)) {
  NOT_NULL(comm);
  NOT_NULL(outUserPtr);
  JNIEnv* env = enter();
  return env ? address_of(env, CALL(env, Long, windowAddress, handle_of(win)), outUserPtr)
             : ncclSystemError;
}

static ncclResult_t peer(ncclWindow_t window, size_t offset, int peer, bool local, void** into) {
  JNIEnv* env = enter();
  return env ? address_of(env, CALL(env, Long, peerAddress, handle_of(window), (jlong)offset,
                                    (jint)peer, (jboolean)local), into)
             : ncclSystemError;
}

API(ncclResult_t, ncclGetPeerDevicePointer,
    (ncclWindow_t window, size_t offset, int rank, void** outPtr)) {
  NOT_NULL(outPtr);
  return peer(window, offset, rank, false, outPtr);
}

API(ncclResult_t, ncclGetLsaDevicePointer,
    (ncclWindow_t window, size_t offset, int lsaRank, void** outPtr)) {
  NOT_NULL(outPtr);
  return peer(window, offset, lsaRank, true, outPtr);
}

API(ncclResult_t, ncclGetLsaMultimemDevicePointer,
    (ncclWindow_t window, size_t offset, void** outPtr)) {
  NOT_NULL(outPtr);
  JNIEnv* env = enter();
  return env ? address_of(env, CALL(env, Long, multicastAddress, handle_of(window), (jlong)offset),
                          outPtr)
             : ncclSystemError;
}

static ncclResult_t check_signal(int index, int context, unsigned flags) {
  if (!index && !context && !flags) return ncclSuccess;
  return fail_group(fail(ncclInvalidArgument, "a signal has the index %d, the context %d and the "
                         "flags %u. Remedy: pass 0 for each, as NCCL 2.30 demands", index, context,
                         flags));
}

API(ncclResult_t, ncclPutSignal,
    (const void* localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
     size_t peerWinOffset, int sigIdx, int ctx, unsigned flags, ncclComm_t comm,
     cudaStream_t stream)) {
  CALL_NEEDS(comm);
  CALL_NEEDS(peerWin);
  if (count) CALL_NEEDS(localbuff);
  if ((unsigned)datatype >= ncclNumTypes)
    return fail_group(fail(ncclInvalidArgument, "%d is not a type. Remedy: pass an ncclDataType_t",
                           datatype));
  ncclResult_t result = check_signal(sigIdx, ctx, flags);
  if (result) return result;
  JNIEnv* env = enter();
  return env ? result_of(env, CALL(env, Int, put, handle_of(comm),
                                   call_shape(PUT_SIGNAL, datatype, ncclSum, peer),
                                   handle_of(localbuff), (jlong)count, handle_of(peerWin),
                                   (jlong)peerWinOffset, handle_of(stream)))
             : ncclSystemError;
}

API(ncclResult_t, ncclSignal,
    (int peer, int sigIdx, int ctx, unsigned flags, ncclComm_t comm, cudaStream_t stream)) {
  CALL_NEEDS(comm);
  ncclResult_t result = check_signal(sigIdx, ctx, flags);
  if (result) return result;
  JNIEnv* env = enter();
  return env ? result_of(env, CALL(env, Int, signal, handle_of(comm), (jint)peer, handle_of(stream)))
             : ncclSystemError;
}

API(ncclResult_t, ncclWaitSignal,
    (int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm, cudaStream_t stream)) {
  CALL_NEEDS(comm);
  CALL_NEEDS(signalDescs);
  enum { MOST = 4096 };
  if (nDesc < 1 || nDesc > MOST)
    return fail_group(fail(ncclInvalidArgument, "%d signals are awaited. Remedy: pass 1 to %d", nDesc,
                           MOST));
  jint pairs[2 * MOST];
  for (int i = 0; i < nDesc; i++) {
    ncclResult_t result = check_signal(signalDescs[i].sigIdx, signalDescs[i].ctx, 0);
    if (result) return result;
    pairs[2 * i] = signalDescs[i].opCnt;
    pairs[2 * i + 1] = signalDescs[i].peer;
  }
  JNIEnv* env = enter();
  return env ? result_of(env, CALL(env, Int, waitSignal, handle_of(comm), handle_of(pairs), (jint)nDesc,
                                   handle_of(stream)))
             : ncclSystemError;
}
