package org.nccl4j.transport.net.ib.bind;

/** What fakeverbs.c has for tests; see there. */
public interface FakeVerbsFunctions {
  void fake_reset();

  int fake_add_device(String name, int transport, int state, int layer, int mtu);

  void fake_set_gid(int device, int index, long high, long low, int type);

  void fake_fail(String call, int error, int after);

  void fake_complete_with(int status, int after);

  void fake_lose_from(long bytes);

  void fake_event(int type, long element);

  int fake_live();

  String fake_calls();

  int fake_attribute(int which);

  long fake_last_qp();
}
