package org.nccl4j.transport.net.ib.bind;

import org.nccl4j.device.bind.SetsErrno;

/**
 * The exported functions of libibverbs.so.1, by their own names; see section 3 of the manual for
 * each. What C calls a pointer is an address here. The functions that move data (post_send,
 * post_recv, poll_cq) are not exported: they are pointers in a context. Called only by the class
 * Verbs.
 */
@SetsErrno
public interface VerbsFunctions {
  /** The file name of the library. */
  String LIBRARY = "libibverbs.so.1";

  int ibv_fork_init();

  long ibv_get_device_list(long count);

  void ibv_free_device_list(long list);

  String ibv_get_device_name(long device);

  long ibv_get_device_guid(long device);

  long ibv_open_device(long device);

  int ibv_close_device(long context);

  int ibv_query_device(long context, long attributes);

  int ibv_query_port(long context, int port, long attributes);

  int ibv_query_gid(long context, int port, int index, long gid);

  long _ibv_query_gid_table(long context, long entries, long max, int flags, long entryBytes);

  long ibv_alloc_pd(long context);

  int ibv_dealloc_pd(long domain);

  long ibv_reg_mr(long domain, long address, long bytes, int access);

  long ibv_reg_mr_iova2(long domain, long address, long bytes, long iova, int access);

  long ibv_reg_dmabuf_mr(long domain, long offset, long bytes, long iova, int fd, int access);

  int ibv_dereg_mr(long region);

  long ibv_create_cq(long context, int entries, long userContext, long channel, int vector);

  int ibv_destroy_cq(long queue);

  long ibv_create_qp(long domain, long attributes);

  int ibv_modify_qp(long pair, long attributes, int mask);

  int ibv_destroy_qp(long pair);

  int ibv_get_async_event(long context, long event);

  void ibv_ack_async_event(long event);

  String ibv_wc_status_str(int status);

  String ibv_event_type_str(int type);
}
