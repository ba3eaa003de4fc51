package org.nccl4j.transport.net.ib.bind;

/** The functions that fakeverbs.c has for tests. */
public interface FakeVerbsFunctions {
  void fake_reset();

  int fake_add_device(String name, int transport, int state, int layer, int mtu);

  void fake_set_gid(int device, int index, long high, long low, int type);

  void fake_fail(String call, int error, int after);

  void fake_fail_once(String call, int error);

  void fake_complete_with(int status, int after);

  void fake_lose_from(long bytes);

  void fake_set_down(int device, int port, int down);

  void fake_chaos(int oneOf, long seed);

  void fake_break(int after, int arrives);

  int fake_broke();

  void fake_event(int device, int type, long element);

  void fake_set_ports(int device, int ports);

  void fake_set_speed(int device, int port, int speed);

  int fake_live();

  String fake_calls();

  long fake_last_qp();

  long fake_last_cq();
}
