// Communicators that do not block, whose ranks one thread drives: what each call gives while a
// creation goes on. Needs NCCL4J_DEVICE=host.
#include "checks.h"
#include <time.h>

enum { RANKS = 2, PATIENCE_SECONDS = 240 };

static ncclConfig_t in_background(void) {
  ncclConfig_t made = newest();
  made.blocking = 0;
  return made;
}

// The first state that a communicator has after another.
static ncclResult_t state_after(ncclResult_t given, ncclComm_t comm) {
  time_t end = time(NULL) + PATIENCE_SECONDS;
  ncclResult_t state = given;
  while (state == given) {
    CHECK(time(NULL) < end);
    OK(ncclCommGetAsyncError(comm, &state));
  }
  return state;
}

// What a communicator's creation ends with.
static ncclResult_t end_of(ncclComm_t comm) { return state_after(ncclInProgress, comm); }

static void create(ncclComm_t* comms) {
  ncclUniqueId id;
  ncclConfig_t given = in_background();
  OK(ncclGetUniqueId(&id));
  for (int r = 0; r < RANKS; r++)
    GIVES(ncclInProgress, ncclCommInitRankConfig(comms + r, RANKS, id, r, &given));
  for (int r = 0; r < RANKS; r++) GIVES(ncclSuccess, end_of(comms[r]));
}

static void abort_all(ncclComm_t* comms) {
  for (int r = 0; r < RANKS; r++) OK(ncclCommAbort(comms[r]));
}

// A creation goes on, and its communicator is there.
#define BEGINS(made, call)          \
  do {                              \
    GIVES(ncclInProgress, call);    \
    CHECK(made);                    \
    check_state(made);              \
  } while (0)

static void check_state(ncclComm_t made) {
  ncclResult_t state;
  OK(ncclCommGetAsyncError(made, &state));
  CHECK(state == ncclInProgress || state == ncclSuccess);
}

// The new communicator is there when the call returns, in a group too: NCCL's guide asks it for its
// state from then on, and a program aborts it after its parent.
static void handles_at_once(void) {
  ncclUniqueId id;
  ncclConfig_t given = in_background();
  for (int grouped = 0; grouped < 2; grouped++) {
    ncclComm_t comms[RANKS] = {NULL}, children[RANKS] = {NULL}, rest = NULL;
    int excluded = 1;
    OK(ncclGetUniqueId(&id));
    if (grouped) OK(ncclGroupStart());
    for (int r = 0; r < RANKS; r++)
      BEGINS(comms[r], ncclCommInitRankConfig(comms + r, RANKS, id, r, &given));
    if (grouped) GIVES(ncclInProgress, ncclGroupEnd());
    for (int r = 0; r < RANKS; r++) GIVES(ncclSuccess, end_of(comms[r]));
    if (grouped) OK(ncclGroupStart());
    for (int r = 0; r < RANKS; r++)
      BEGINS(children[r], ncclCommSplit(comms[r], 0, r, children + r, NULL));
    if (grouped) GIVES(ncclInProgress, ncclGroupEnd());
    for (int r = 0; r < RANKS; r++) GIVES(ncclSuccess, end_of(children[r]));
    if (grouped) OK(ncclGroupStart());
    BEGINS(rest, ncclCommShrink(children[0], &excluded, 1, &rest, NULL, 0));
    if (grouped) GIVES(ncclInProgress, ncclGroupEnd());
    GIVES(ncclSuccess, end_of(rest));
    OK(ncclCommAbort(rest));
    abort_all(children);
    abort_all(comms);
  }
}

// The other ranks hear of a child that is given up while a split creates it.
static void aborted_child(void) {
  ncclComm_t comms[RANKS], child, other;
  ncclConfig_t given = in_background();
  create(comms);
  GIVES(ncclInProgress, ncclCommSplit(comms[0], 0, 0, &child, &given));
  OK(ncclCommAbort(child));
  GIVES(ncclRemoteError, state_after(ncclSuccess, comms[1]));
  GIVES(ncclInProgress, ncclCommSplit(comms[1], 0, 1, &other, &given));
  GIVES(ncclRemoteError, end_of(other));
  OK(ncclCommAbort(other));
  abort_all(comms);
}

// Without a configuration of its own a child has its parent's.
static void children_of_the_parents_kind(void) {
  ncclComm_t comms[RANKS], children[RANKS], rest;
  ncclConfig_t plain = newest();
  int excluded = 1;
  create(comms);
  for (int r = 0; r < RANKS; r++)
    GIVES(ncclInProgress, ncclCommSplit(comms[r], 0, r, children + r, NULL));
  for (int r = 0; r < RANKS; r++) GIVES(ncclSuccess, end_of(children[r]));
  GIVES(ncclInProgress, ncclCommShrink(children[0], &excluded, 1, &rest, NULL, 0));
  GIVES(ncclSuccess, end_of(rest));
  OK(ncclCommDestroy(rest));
  OK(ncclCommShrink(children[0], &excluded, 1, &rest, &plain, 0));
  OK(ncclCommDestroy(rest));
  abort_all(children);
  abort_all(comms);
}

// Programs ask the parent, also those of ranks that get no child.
static void state_of_the_parent(void) {
  enum { NO_COLOR = -1 };
  ncclComm_t comms[RANKS], child, none;
  ncclResult_t state;
  int n;
  create(comms);
  for (int colored = 0; colored < RANKS; colored++) {
    GIVES(ncclInProgress, ncclCommSplit(comms[0], colored ? NO_COLOR : 0, 0, &none, NULL));
    OK(ncclCommGetAsyncError(comms[0], &state));
    CHECK(state == ncclInProgress);
    if (!colored) child = none;
    GIVES(ncclInProgress, ncclCommSplit(comms[1], colored ? 0 : NO_COLOR, 0, &none, NULL));
    if (colored) child = none;
    for (int r = 0; r < RANKS; r++) GIVES(ncclSuccess, end_of(comms[r]));
    OK(ncclCommCount(child, &n));
    CHECK(n == 1);
    OK(ncclCommDestroy(child));
  }
  GIVES(ncclInProgress, ncclCommSplit(comms[0], -7, 0, &child, NULL));
  GIVES(ncclInvalidArgument, end_of(comms[0]));
  OK(ncclCommAbort(child));
  abort_all(comms);
}

// An abort of the parent ends the creation of its child.
static void aborted_parent(void) {
  ncclComm_t comms[RANKS], child;
  create(comms);
  GIVES(ncclInProgress, ncclCommSplit(comms[0], 0, 0, &child, NULL));
  OK(ncclCommAbort(comms[0]));
  CHECK(end_of(child) != ncclSuccess);
  OK(ncclCommAbort(child));
  OK(ncclCommAbort(comms[1]));
}

// One thread grows a communicator in a group, and without waiting for the ranks one after the other.
static void growth(void) {
  ncclComm_t comms[RANKS], larger[RANKS + 1];
  ncclUniqueId id;
  int data[RANKS + 1];
  create(comms);
  for (int grouped = 0; grouped < 2; grouped++) {
    OK(ncclCommGetUniqueId(comms[0], &id));
    ncclConfig_t given = in_background();
    if (grouped) {
      given.blocking = 1;
      OK(ncclGroupStart());
    }
    ncclResult_t begun = grouped ? ncclSuccess : ncclInProgress;
    for (int r = RANKS; r >= 0; r--)
      GIVES(begun, ncclCommGrow(r < RANKS ? comms[r] : NULL, RANKS + 1, r == 1 ? NULL : &id,
                                r < RANKS ? -1 : r, larger + r, &given));
    if (grouped) OK(ncclGroupEnd());
    for (int r = 0; r <= RANKS; r++) GIVES(ncclSuccess, end_of(larger[r]));
    OK(ncclGroupStart());
    for (int r = 0; r <= RANKS; r++) {
      data[r] = 1 << r;
      OK(ncclAllReduce(data + r, data + r, 1, ncclInt32, ncclSum, larger[r], NULL));
    }
    OK(ncclGroupEnd());
    for (int r = 0; r <= RANKS; r++) CHECK(data[r] == 7);
    for (int r = 0; r <= RANKS; r++) OK(ncclCommAbort(larger[r]));
  }
  abort_all(comms);
}

enum { BYTES = 1 << 16 };
static int* memory[RANKS];

static void register_for(ncclComm_t* comms, ncclWindow_t* windows) {
  for (int r = 0; r < RANKS; r++)
    OK(ncclCommWindowRegister(comms[r], memory[r], BYTES, windows + r, WINDOW_SYMMETRIC));
}

static void sum_together(ncclComm_t* comms) {
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    memory[r][0] = 1 + r;
    OK(ncclAllReduce(memory[r], memory[r], 1, ncclInt32, ncclSum, comms[r], NULL));
  }
}

static void end_sum(void) {
  OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; r++) CHECK(memory[r][0] == 3);
}

static void deregister(ncclComm_t* comms, ncclWindow_t* windows) {
  for (int r = 0; r < RANKS; r++) OK(ncclCommWindowDeregister(comms[r], windows[r]));
}

// A registration waits for the other ranks in the background. Meanwhile the communicator takes no calls.
static void windows_one_rank_after_the_other(ncclComm_t* comms) {
  ncclWindow_t windows[RANKS] = {NULL}, more;
  ncclResult_t state;
  void* address;
  OK(ncclCommWindowRegister(comms[0], memory[0], BYTES, windows, WINDOW_SYMMETRIC));
  CHECK(windows[0]);
  OK(ncclCommGetAsyncError(comms[0], &state));
  CHECK(state == ncclInProgress);
  REFUSED(ncclInvalidArgument, "registers",
          ncclAllReduce(memory[0], memory[0], 1, ncclInt32, ncclSum, comms[0], NULL));
  REFUSED(ncclInvalidArgument, "registers",
          ncclCommWindowRegister(comms[0], memory[0], BYTES, &more, WINDOW_SYMMETRIC));
  REFUSED(ncclInvalidArgument, "registers", ncclCommWindowDeregister(comms[0], windows[0]));
  REFUSED(ncclInvalidArgument, "registers", ncclCommFinalize(comms[0]));
  REFUSED(ncclInvalidArgument, "registers", ncclCommDestroy(comms[0]));
  REFUSED(ncclInvalidArgument, "registers", ncclGetPeerDevicePointer(windows[0], 0, 0, &address));
  OK(ncclCommWindowRegister(comms[1], memory[1], BYTES, windows + 1, WINDOW_SYMMETRIC));
  for (int r = 0; r < RANKS; r++) GIVES(ncclSuccess, end_of(comms[r]));
  OK(ncclGetPeerDevicePointer(windows[0], 0, 0, &address));
  CHECK(address);
  sum_together(comms);
  end_sum();
  deregister(comms, windows);
}

// The end of a group with nothing but registrations does not wait either.
static void windows_in_a_group(ncclComm_t* comms) {
  ncclWindow_t windows[RANKS];
  OK(ncclGroupStart());
  register_for(comms, windows);
  GIVES(ncclInProgress, ncclGroupEnd());
  for (int r = 0; r < RANKS; r++) GIVES(ncclSuccess, end_of(comms[r]));
  sum_together(comms);
  end_sum();
  deregister(comms, windows);
}

// Windows come before the operations of their group, which may use them.
static void windows_in_a_group_with_operations(ncclComm_t* comms) {
  ncclWindow_t windows[RANKS];
  sum_together(comms);
  register_for(comms, windows);
  end_sum();
  deregister(comms, windows);
}

// Of a group that fails no window is left, and none of memory that cannot be one.
static void windows_that_fail(ncclComm_t* comms) {
  static int own[RANKS][BYTES / sizeof(int)];
  ncclWindow_t windows[RANKS];
  OK(ncclGroupStart());
  register_for(comms, windows);
  REFUSED(ncclInvalidArgument, "NULL", ncclAllReduce(NULL, NULL, 1, ncclInt32, ncclSum, NULL, NULL));
  REFUSED(ncclInvalidArgument, "NULL", ncclGroupEnd());
  deregister(comms, windows);
  for (int r = 0; r < RANKS; r++)
    OK(ncclCommWindowRegister(comms[r], own[r], BYTES, windows + r, WINDOW_SYMMETRIC));
  for (int r = 0; r < RANKS; r++) GIVES(ncclInvalidArgument, end_of(comms[r]));
  void* address;
  REFUSED(ncclInvalidArgument, "registration", ncclGetPeerDevicePointer(windows[0], 0, 0, &address));
  deregister(comms, windows);
  windows_in_a_group(comms);
}

// An abort or a revocation ends a registration that another rank does not come to.
static void windows_that_are_given_up(int revokes) {
  ncclComm_t comms[RANKS];
  ncclWindow_t window;
  create(comms);
  OK(ncclCommWindowRegister(comms[0], memory[0], BYTES, &window, WINDOW_SYMMETRIC));
  if (revokes) {
    GIVES(ncclInProgress, ncclCommRevoke(comms[0], 0));
    GIVES(ncclSuccess, end_of(comms[0]));
    OK(ncclCommDestroy(comms[0]));
  } else {
    OK(ncclCommAbort(comms[0]));
  }
  OK(ncclCommAbort(comms[1]));
}

static void windows(void) {
  ncclComm_t comms[RANKS];
  for (int r = 0; r < RANKS; r++) OK(ncclMemAlloc((void**)(memory + r), BYTES));
  create(comms);
  windows_one_rank_after_the_other(comms);
  windows_in_a_group(comms);
  windows_in_a_group_with_operations(comms);
  windows_that_fail(comms);
  abort_all(comms);
  for (int revokes = 0; revokes < 2; revokes++) windows_that_are_given_up(revokes);
  for (int r = 0; r < RANKS; r++) OK(ncclMemFree(memory[r]));
}

int main(void) {
  windows();
  handles_at_once();
  aborted_child();
  state_of_the_parent();
  aborted_parent();
  children_of_the_parents_kind();
  growth();
  puts("all was right");
  return 0;
}
