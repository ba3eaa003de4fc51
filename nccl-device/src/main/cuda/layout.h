// The layouts that Java and the kernels share, byte by byte. C, so that a test without nvcc can check it
// against the Java side (class KernelLayout). All addresses are device addresses.
#ifndef NCCL4J_LAYOUT_H
#define NCCL4J_LAYOUT_H

#include <stdint.h>

// Channels of a connection. Each has a tail and a head word of its own, NCCL4J_WORD_STRIDE apart,
// and the same 64th of every slot, for any number of channels of an operation. A sender may be in the next
// operation while the receiver is in this one.
#define NCCL4J_CHANNELS 64
#define NCCL4J_WORD_STRIDE 128
#define NCCL4J_HEADER_BYTES 8192
#define NCCL4J_SLOTS 8
#define NCCL4J_UNTOLD_STEPS 2  // most steps whose heads a kernel need not post: of small exchanges of all ranks,
                               // of which later data tell, and of small messages, of which a later kernel tells
#define NCCL4J_CALLS 16  // from a tail to uint32_t[NCCL4J_SLOTS / 2], and to another NCCL4J_MORE_CALLS behind
                         // it: of the first step in Simple of a call the call's signature above, and
                         // below that step's number without what the slot says
#define NCCL4J_MORE_CALLS 96
#define NCCL4J_SIZES 32  // from a tail to uint32_t[NCCL4J_SLOTS]: of what is carried the size, and where
                         // channels claim rounds (NCCL4J_CLAIMING_CHANNELS) the number of the next
#define NCCL4J_LINES 0x80000000u  // in a size: the step is in LL, without a tail. Above 16 bits its size, and
                                  // below the call's signature; the proxy sets it to 0 before the head
#define NCCL4J_CLAIMING_CHANNELS 32  // least; none claim where some rank's connection is carried
#define NCCL4J_EXPOSED 0x40000000u  // in a size without NCCL4J_LINES: the step's data are in the sender's buffer, from
                                 // where the proxy sends them; below the bytes
#define NCCL4J_EXPOSED_FROM 4096    // from a carried channel's tail, where no other channel is, to
                                 // uint64_t[NCCL4J_SLOTS]: the addresses of steps that are exposed
#define NCCL4J_PLACED 4160       // likewise of the receiver: s + 1 once the proxy has received step s in the
                                 // kernel's buffer, before the tail
#define NCCL4J_WANTED 32         // from a carried channel's head: s + 1 for the last step s whose data the kernel
                                 // wants in its buffer
#define NCCL4J_WANTED_AT 4096    // from the head to nccl4jWanted[NCCL4J_SLOTS], before that
#define NCCL4J_OFFER 64     // from a head to where the receiver would have a message go: a line of LL
#define NCCL4J_STRAIGHT 64  // from a tail to the last step that went there, and above the call's signature
#define NCCL4J_USER 96      // from a tail to which of those that share the connection sends: the first
                            // step's lower 32 bits above, then the communicator, then the one before
#define NCCL4J_COPIES 104   // from channel 0's tail how many copies have come, from its head how many of
                            // those that were sent the receiver has taken
#define NCCL4J_NO_OFFER (~0ull)
#define NCCL4J_INLINE_PEERS 32
#define NCCL4J_INLINE_GROUPS 32
#define NCCL4J_INLINE_WORKS 64
#define NCCL4J_EXPOSED_WORKS 512  // the first works of a launch, each of which may use its buffer itself
#define NCCL4J_NVLS_HEADS 32
#define NCCL4J_TREE_CHILDREN 4  // most of a rank: two on other machines and two on its own
#define NCCL4J_SIMPLE_THREADS 576   // of a block, in Simple and of sends and receives
#define NCCL4J_FLAGGED_THREADS 512  // in LL and LL128
#define NCCL4J_NVLS_THREADS 640     // of NVLS within a machine
#define NCCL4J_NONE 65535  // in place of a rank, which is below it

enum nccl4jCollective { BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE };
enum nccl4jProtocol { LL, LL128, SIMPLE };
enum nccl4jOperator { SUM, PROD, MAX, MIN, AVG, PREMUL };
enum nccl4jGroupKind { GROUP_SEND, GROUP_RECV, GROUP_COPY };
enum nccl4jBase { BASE_NONE, BASE_SEND, BASE_RECV };

// The buffers of a call that must lie at the same place of all ranks' windows, and when the blocks of the next kernel
// in the stream may start (launch.cuh): neither means at this one's end.
enum nccl4jFlags { ALIKE_SEND = 1, ALIKE_RECV = 2, ADMITS_AT_ONCE = 4, ADMITS_WHEN_MET = 8 };

// The ends of the two connections with one rank, and their steps. Communicators that share connections
// also share the steps, although the rank may have another number in each.
typedef struct {
  uint64_t sendData;    // data side of the connection to it; lies with it
  uint64_t sendCredit;  // credit side of that; lies here
  uint64_t recvData;    // data side of the connection from it; lies here
  uint64_t recvCredit;  // credit side of that; lies with it
  uint64_t steps;       // nccl4jSteps[NCCL4J_CHANNELS]
} nccl4jPeer;

// Steps of a channel of the connections with one rank, counted over all operations.
typedef struct {
  uint64_t sent;
  uint64_t received;
  uint64_t implied;  // sent steps that the peer must have received, since it sent later data
  uint16_t carried;  // bits: 0 where a proxy of this host carries what is sent, and has to know its
                     // size; 1 where one carries what is received
  uint16_t sender;   // communicator of the last kernel that sends
  uint16_t receiver; // communicator of the last kernel that receives
  uint16_t pad0;
  uint64_t told;     // the peer's word at NCCL4J_USER
  uint64_t seen;     // steps received before receiver's kernels
  uint64_t copies;   // by copy engines, told or waited for, by channel: nccl4jCopies
  uint32_t claimed;  // of a straight message, the channel's number among those of its kernel: what
                     // channels have claimed of it; zero while none is sent
  uint32_t done;     // channels that have finished the message
} nccl4jSteps;

// Where a kernel wants the data of a carried step.
typedef struct {
  uint64_t address;
  uint64_t step;  // s + 1 above NCCL4J_WANTED_BYTES bits, and below the bytes that the step has to have
} nccl4jWanted;
#define NCCL4J_WANTED_BYTES 24

// The counts of copies, and the channels whose steps hold them.
enum nccl4jCopies { COPIES_SENT, COPIES_KNOWN_TAKEN, COPIES_RECEIVED, COPIES_TOLD_TAKEN };

// Host memory that the device polls, and where it reports.
typedef struct {
  uint32_t abort;      // host or device writes 1; all waits of the communicator's kernels end
  uint32_t pad0[15];
  uint32_t failed;     // the device writes 1 after the fields below
  int32_t failedPeer;  // rank that the kernel waited for
  uint32_t failedChannel;
  uint32_t failedKind;  // 0 waited for data, 1 for credit; 2 got what was sent for another communicator,
                        // 3 for another call; 4 and 5: see expert.cuh, 6 to 8: ragged.cuh
  uint64_t failedStep;  // of kind 3 not the step but the own call in the upper half and the other rank's in
                        // the lower, 0 if that is not known: its signature above, and below what stands
                        // for where its buffers lie
  uint64_t waiting;     // by some thread that waits for long, again and again: in bytes from the lowest the
                        // kind as failedKind, the channel, two of the rank, four of the time
  uint64_t pad1[12];
} nccl4jControl;

// Arguments of every kernel of a communicator.
typedef struct {
  uint64_t control;      // nccl4jControl
  uint64_t budget;       // longest wait in nanoseconds
  int32_t rank;
  int32_t nRanks;
  uint32_t llSlot;       // bytes of one slot of a connection, all channels together
  uint32_t ll128Slot;
  uint32_t simpleSlot;
  uint32_t user;         // number among the communicators that share its connections: 0 the first
  uint32_t signature;    // of the call (class CallSignature), never 0; each send and receive has its own
  uint32_t flags;        // nccl4jFlags
} nccl4jCommunicator;    // the next field begins at a multiple of 16

// Arguments of a collective.
typedef struct {
  nccl4jCommunicator comm;
  uint64_t send;         // the buffers; the only fields that differ between launches of a plan
  uint64_t recv;
  uint64_t bytes;        // as CollectiveWork.count, in bytes
  uint64_t ringRanks;    // uint16_t[NCCL4J_CHANNELS][nRanks]: ranks in ring order; of HIERARCHICAL
                         // uint16_t[nRanks]: ranks host after host
  uint64_t peerTable;    // nccl4jPeer[nRanks], if the inline table is too short
  uint32_t collective;
  uint32_t algorithm;    // nccl4jAlgorithm
  uint32_t op;
  uint32_t root;
  uint32_t nChannels;
  uint32_t sliceBytes;   // most data of a channel's step
  uint32_t firstChannel; // the channels' numbers begin with this; all else about them begins with the first's
  uint32_t hostRanks;    // HIERARCHICAL: ranks of each host
  nccl4jPeer peers[NCCL4J_INLINE_PEERS];
  uint16_t ringIndex[NCCL4J_CHANNELS];  // this rank's place in each ring, or in ringRanks
  uint16_t ringPrev[NCCL4J_CHANNELS];   // HIERARCHICAL: on the host
  uint16_t ringNext[NCCL4J_CHANNELS];
  uint16_t treeUp[NCCL4J_CHANNELS];     // ranks, or NCCL4J_NONE; HIERARCHICAL: before along the rail,
                                        // and the next one as the first child
  uint16_t treeDown[NCCL4J_TREE_CHILDREN][NCCL4J_CHANNELS];
  uint64_t claims;       // uint32_t count of the claimed rounds of a ring, 0 before and after each
                         // kernel; or 0 if each channel has a share of its own
  uint32_t wholeRounds;  // rounds before the small ones
  uint32_t smallSlices;  // slices of a chunk in small rounds
  uint64_t scalar;         // PREMUL: this rank's element
  uint64_t scalarAddress;  // or its address
} nccl4jCollectiveArguments;

// Steps of a channel of the two NVLS connections of one head, counted over all operations.
typedef struct {
  uint64_t reduce;
  uint64_t broadcast;
} nccl4jNvlsSteps;

// Arguments of NVLS.
typedef struct {
  nccl4jCommunicator comm;
  uint64_t send;
  uint64_t recv;
  uint64_t bytes;          // as CollectiveWork.count, in bytes
  uint64_t steps;          // nccl4jNvlsSteps[NCCL4J_CHANNELS][NCCL4J_NVLS_HEADS]
  uint64_t unicast;        // own memory
  uint32_t collective;
  uint32_t op;
  uint32_t nChannels;
  uint32_t chunkBytes;     // most data of a step, a multiple of 128
  uint32_t slotBytes;      // of the layout, as the next two
  uint32_t layoutChannels;
  int32_t nHeads;
  int32_t headRank;        // this rank's number among the heads
  uint64_t views[NCCL4J_NVLS_HEADS];  // the multicast address, or the address of each rank's memory
  uint16_t headRanks[NCCL4J_NVLS_HEADS];
} nccl4jNvlsArguments;

// Works with the same peer and direction, which the same blocks run one after the other. Two groups may
// share blocks in turn (blockStep 2). Then the first has the blocks at even distances from its first block.
typedef struct {
  uint64_t data;       // the end of the connection that the direction needs
  uint64_t credit;
  uint64_t steps;      // as those of a peer
  uint16_t peer;
  uint8_t kind;
  uint8_t blockStep;    // from the block of one channel to that of the next
  uint16_t firstBlock;  // of channel 0
  uint16_t nBlocks;     // channels; if groups share blocks in turn, further blocks have nothing to do
  uint32_t firstWork;
  uint32_t nWorks;
} nccl4jGroup;

// One send, receive or copy.
typedef struct {
  uint64_t address;    // or an offset, depending on base
  uint64_t target;     // of a copy; if offered, the receiver's stretch of the flat range for the sender
                       // (or 0), and for the receiver the offset in that (or NCCL4J_NO_OFFER)
  uint64_t bytes;
  uint8_t base;        // nccl4jBase of address
  uint8_t targetBase;
  uint8_t protocol;
  uint8_t parts;       // channels that share it
  uint16_t offered;    // 1 if the receiver first offers a place
  uint16_t signature;  // of the work's call
} nccl4jWork;

// Arguments of sends and receives.
typedef struct {
  nccl4jCommunicator comm;
  uint64_t send;
  uint64_t recv;
  uint64_t groups;     // device memory with groups and works, if the inline ones are too short
  uint64_t works;
  uint32_t nGroups;
  uint32_t pad;
  nccl4jGroup inlineGroups[NCCL4J_INLINE_GROUPS];
  nccl4jWork inlineWorks[NCCL4J_INLINE_WORKS];
  uint64_t exposed[NCCL4J_EXPOSED_WORKS / 64];  // bits by work: its proxy sends from its buffer, or receives there
} nccl4jP2pArguments;

// Arguments of the kernels that report copies and wait for them.
typedef struct {
  nccl4jCommunicator comm;
  uint64_t send;     // of the launch, as in all arguments; not used
  uint64_t recv;
  uint64_t word;     // NCCL4J_COPIES of the peer, or of this rank
  uint64_t counter;  // copies of the steps with it
  uint64_t number;   // number of copies to report or to wait for
  int32_t peer;
  uint32_t kind;     // awaited data or credit, as failedKind
} nccl4jCopyArguments;

#endif
