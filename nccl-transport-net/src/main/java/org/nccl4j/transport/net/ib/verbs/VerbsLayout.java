package org.nccl4j.transport.net.ib.verbs;

/**
 * The offsets of the members of libibverbs' structures, and the values of its constants, on 64-bit
 * Linux: the ABI of IBVERBS_1.1, the same since 2008. A test compares all of it with the installed
 * infiniband/verbs.h.
 */
public final class VerbsLayout {
  public static final int CONTEXT_POLL_CQ = 96;
  public static final int CONTEXT_POST_SEND = 208;
  public static final int CONTEXT_POST_RECV = 216;
  public static final int CONTEXT_ASYNC_FD = 268;

  public static final int DEVICE_TRANSPORT_TYPE = 20;
  public static final int DEVICE_IBDEV_PATH = 408;

  public static final int DEVICE_ATTR_BYTES = 232;
  public static final int DEVICE_ATTR_PHYS_PORT_CNT = 227;

  public static final int PORT_ATTR_BYTES = 52;
  public static final int PORT_ATTR_STATE = 0;
  public static final int PORT_ATTR_ACTIVE_MTU = 8;
  public static final int PORT_ATTR_GID_TBL_LEN = 12;
  public static final int PORT_ATTR_MAX_MSG_SZ = 20;
  public static final int PORT_ATTR_LID = 34;
  public static final int PORT_ATTR_ACTIVE_WIDTH = 43;
  public static final int PORT_ATTR_ACTIVE_SPEED = 44;
  public static final int PORT_ATTR_LINK_LAYER = 46;

  public static final int GID_ENTRY_BYTES = 32;
  public static final int GID_ENTRY_GID = 0;
  public static final int GID_ENTRY_INDEX = 16;
  public static final int GID_ENTRY_PORT = 20;
  public static final int GID_ENTRY_TYPE = 24;

  public static final int MR_LKEY = 36;
  public static final int MR_RKEY = 40;

  public static final int CQ_CONTEXT = 0;
  public static final int QP_CONTEXT = 0;
  public static final int QP_NUM = 52;

  public static final int QP_INIT_ATTR_BYTES = 64;
  public static final int QP_INIT_ATTR_SEND_CQ = 8;
  public static final int QP_INIT_ATTR_RECV_CQ = 16;
  public static final int QP_INIT_ATTR_MAX_SEND_WR = 32;
  public static final int QP_INIT_ATTR_MAX_RECV_WR = 36;
  public static final int QP_INIT_ATTR_MAX_SEND_SGE = 40;
  public static final int QP_INIT_ATTR_MAX_RECV_SGE = 44;
  public static final int QP_INIT_ATTR_QP_TYPE = 52;

  public static final int QP_ATTR_BYTES = 144;
  public static final int QP_ATTR_QP_STATE = 0;
  public static final int QP_ATTR_PATH_MTU = 8;
  public static final int QP_ATTR_RQ_PSN = 20;
  public static final int QP_ATTR_SQ_PSN = 24;
  public static final int QP_ATTR_DEST_QP_NUM = 28;
  public static final int QP_ATTR_ACCESS_FLAGS = 32;
  public static final int QP_ATTR_DGID = 56;
  public static final int QP_ATTR_SGID_INDEX = 76;
  public static final int QP_ATTR_HOP_LIMIT = 77;
  public static final int QP_ATTR_TRAFFIC_CLASS = 78;
  public static final int QP_ATTR_DLID = 80;
  public static final int QP_ATTR_SL = 82;
  public static final int QP_ATTR_IS_GLOBAL = 85;
  public static final int QP_ATTR_AH_PORT_NUM = 86;
  public static final int QP_ATTR_PKEY_INDEX = 120;
  public static final int QP_ATTR_MAX_RD_ATOMIC = 126;
  public static final int QP_ATTR_MAX_DEST_RD_ATOMIC = 127;
  public static final int QP_ATTR_MIN_RNR_TIMER = 128;
  public static final int QP_ATTR_PORT_NUM = 129;
  public static final int QP_ATTR_TIMEOUT = 130;
  public static final int QP_ATTR_RETRY_CNT = 131;
  public static final int QP_ATTR_RNR_RETRY = 132;

  public static final int SEND_WR_BYTES = 128;
  public static final int SEND_WR_WR_ID = 0;
  public static final int SEND_WR_NEXT = 8;
  public static final int SEND_WR_SG_LIST = 16;
  public static final int SEND_WR_NUM_SGE = 24;
  public static final int SEND_WR_OPCODE = 28;
  public static final int SEND_WR_SEND_FLAGS = 32;
  public static final int SEND_WR_IMM_DATA = 36;
  public static final int SEND_WR_REMOTE_ADDR = 40;
  public static final int SEND_WR_RKEY = 48;

  public static final int RECV_WR_BYTES = 32;
  public static final int RECV_WR_WR_ID = 0;

  public static final int SGE_BYTES = 16;
  public static final int SGE_ADDR = 0;
  public static final int SGE_LENGTH = 8;
  public static final int SGE_LKEY = 12;

  public static final int WC_BYTES = 48;
  public static final int WC_WR_ID = 0;
  public static final int WC_STATUS = 8;
  public static final int WC_OPCODE = 12;
  public static final int WC_VENDOR_ERR = 16;
  public static final int WC_IMM_DATA = 24;

  public static final int ASYNC_EVENT_BYTES = 16;
  public static final int ASYNC_EVENT_TYPE = 8;

  public static final int TRANSPORT_IB = 0;
  public static final int TRANSPORT_IWARP = 1;
  public static final int PORT_ACTIVE = 4;
  public static final int LINK_LAYER_INFINIBAND = 1;
  public static final int LINK_LAYER_ETHERNET = 2;
  public static final int GID_TYPE_ROCE_V1 = 1;
  public static final int GID_TYPE_ROCE_V2 = 2;

  public static final int QPT_RC = 2;
  public static final int QPS_INIT = 1;
  public static final int QPS_RTR = 2;
  public static final int QPS_RTS = 3;

  public static final int QP_STATE = 1;
  public static final int QP_ACCESS_FLAGS = 8;
  public static final int QP_PKEY_INDEX = 16;
  public static final int QP_PORT = 32;
  public static final int QP_AV = 128;
  public static final int QP_PATH_MTU = 256;
  public static final int QP_TIMEOUT = 512;
  public static final int QP_RETRY_CNT = 1024;
  public static final int QP_RNR_RETRY = 2048;
  public static final int QP_RQ_PSN = 4096;
  public static final int QP_MAX_QP_RD_ATOMIC = 8192;
  public static final int QP_MIN_RNR_TIMER = 32768;
  public static final int QP_SQ_PSN = 65536;
  public static final int QP_MAX_DEST_RD_ATOMIC = 131072;
  public static final int QP_DEST_QPN = 1048576;

  public static final int WR_RDMA_WRITE = 0;
  public static final int WR_RDMA_WRITE_WITH_IMM = 1;
  public static final int WR_RDMA_READ = 4;
  public static final int SEND_SIGNALED = 2;

  public static final int ACCESS_LOCAL_WRITE = 1;
  public static final int ACCESS_REMOTE_WRITE = 2;
  public static final int ACCESS_REMOTE_READ = 4;
  public static final int ACCESS_RELAXED_ORDERING = 1 << 20;

  public static final int WC_SUCCESS = 0;
  public static final int WC_LOC_LEN_ERR = 1;
  public static final int WC_LOC_PROT_ERR = 4;
  public static final int WC_WR_FLUSH_ERR = 5;
  public static final int WC_REM_ACCESS_ERR = 10;
  public static final int WC_REM_OP_ERR = 11;
  public static final int WC_RETRY_EXC_ERR = 12;
  public static final int WC_RDMA_READ = 2;
  public static final int WC_RECV_RDMA_WITH_IMM = 129;

  public static final int EVENT_CQ_ERR = 0;
  public static final int EVENT_QP_FATAL = 1;
  public static final int EVENT_QP_REQ_ERR = 2;
  public static final int EVENT_QP_ACCESS_ERR = 3;
  public static final int EVENT_DEVICE_FATAL = 8;
  public static final int EVENT_PORT_ACTIVE = 9;
  public static final int EVENT_PORT_ERR = 10;
  public static final int EVENT_LID_CHANGE = 11;
  public static final int EVENT_GID_CHANGE = 18;

  private VerbsLayout() {}
}
