package org.nccl4j.device.cuda;

/** The tests' own entries of fakecuda.c. Public for jnr-ffi's stubs. */
public interface FakeLibrary {
  /** All calls since the reset, a line each. */
  String fakeRecord();

  /** The number of live allocations, handles, mappings, streams, events and graphs. */
  long fakeLive();

  /** Copies the beginning of the last launch's arguments. */
  void fakeArguments(long to);

  /** Copies so many bytes of the last launch's arguments, which are still there. */
  void fakeAllArguments(long to, int bytes);

  /** Forgets the record and the failure. */
  void fakeReset();

  /** Makes a function fail from now on; "*" all but those of devices and contexts. */
  void fakeFail(String call, int code);

  /** Makes the n-th call from now on of those that begin with cuM fail, and no other. */
  void fakeFailNth(int n, int code);

  /** The CUDA version that the driver says it speaks, until the reset. */
  void fakeVersion(int version);

  /** The compute capability that functions say they were compiled for, until the reset. */
  void fakeCompiledFor(int capability);

  /**
   * Says that a kernel waits for another rank from now on, or no longer.
   *
   * @return how many times code was loaded beside such a kernel, since the reset
   */
  int fakeSpin(int on);

  /** The kernel that was launched last. */
  String fakeLaunched();

  /** True if every stream says that it is being captured, until the reset. */
  void fakeCapturing(int on);

  /** A stream is of another context of its device: a green one, or one that a program created. */
  void fakeContext(long stream, int isGreen);

  /** A stream was destroyed, and its handle is a new one's. */
  void fakeRenew(long stream);

  /** True if devices say that streams can store and await 64 bits, until the reset. */
  void fakeWideOperations(int on);

  /** Changes what is copied in streams, until the reset. */
  void fakeCorrupt(int on);

  /**
   * Has devices that are made from now on be of another model, until the reset.
   *
   * @param capability as CudaDevice has it
   * @param threads of a multiprocessor, at most
   */
  void fakeGpu(int capability, int multiprocessors, int threads);

  /** Has no device say that it has an attribute, by its number, until the reset. */
  void fakeLack(int attribute);

  /** Support of fabric handles, until the reset: 0 none, 1 all, 2 supported and refused. */
  void fakeFabric(int how);

  /** The least granularity of multicast objects, until the reset. */
  void fakeGranule(long bytes);

  /** Has all modules have a variable of so many bytes by any name, until the reset; 0 for none. */
  void fakeVariable(int bytes);

  /** Has devices have so many bytes, and what is freed, until the reset. */
  void fakeSpare(long bytes);

  /** Says that operations run on all devices from now on, or have ended. */
  void fakeOperate(int on);

  /** The number of streams' memory operations that wait, or come after one that does. */
  int fakeWaiting();
}
