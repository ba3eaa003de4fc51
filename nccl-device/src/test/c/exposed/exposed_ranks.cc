// Runs sends and receives of exposed.cuh against a model of the two proxies and their network, interleaved at random
// (simt.h). Each message uses its buffer or slots at each end, as the seed says. A sender writes its buffer as soon
// as it may, and a receiver compares all bytes of the message and around it.
//   lent_ranks CHANNELS MESSAGES SEED FAULT
// Prints how many steps went how, or the first error. FAULT 1: the receiver makes another call at the end; 2: the
// network stops for good. Then both kernels have to say so.
#include "memory.cuh"

#include "exposed.cuh"

using namespace nccl4j;
using simt::fail;
using u8 = uint8_t;

constexpr u32 kSlice = 256, kThreads = 64, kGuard = 64;
constexpr int kMost = 3;  // channels
constexpr u64 kBudget = 1000000;
constexpr u64 kLayout = NCCL4J_HEADER_BYTES + (u64)NCCL4J_SLOTS * kSlice * NCCL4J_CHANNELS;

enum Fault { NONE, OTHER_CALL, SILENCE };

struct Message {
  u64 bytes;
  bool exposes, wants;
  u32 signature, sourceOffset, targetOffset;
};

// One host's regions, and what its kernels have.
struct End {
  alignas(128) char data[kLayout], credit[NCCL4J_HEADER_BYTES];
  nccl4jSteps steps[NCCL4J_CHANNELS] = {};
  nccl4jControl control = {};
  nccl4jCommunicator comm = {};

  End() {
    memset(data, 0, sizeof data);
    memset(credit, 0, sizeof credit);
    comm.control = (u64)&control;
    comm.budget = kBudget;
    comm.simpleSlot = kSlice * NCCL4J_CHANNELS;
    comm.signature = 1;
    for (nccl4jSteps& each : steps) each.carried = 3;
  }

  void set(Fan& fan, int channel, bool sends) {
    nccl4jPeer ends = {(u64)data, sends ? (u64)credit : 0, (u64)data, (u64)credit, (u64)steps};
    fan.n = 1;
    fan.self = 0;
    fan.signature = 0;
    fan.implied[0] = fan.set(0, 1, ends, comm, channel, sends, !sends);
  }
};

static End sender, receiver;
static int channels, fault;
static u64 stopsAt;  // steps that the network moves
static long exposedSteps, placedSteps, slotSteps, otherSizes;

static u32 noteAt(const End& end, int channel, u64 step) { return loadControl(noteOf((u64)end.data, channel, step)); }

static char* slotAt(End& end, int channel, u64 step) {
  return slotPlace(end.comm, SIMPLE, channel).at((u64)end.data, step);
}

// The proxies of a channel.
struct Proxies {
  int channel;
  u64 posted = 0, transmitted = 0;         // at the sender
  u64 receives = 0, received = 0, told = 0;  // at the receiver: begun, done, flushed
  bool stopped = false;  // the network
  char* moved[NCCL4J_SLOTS] = {};  // where a begun receive goes; null to the slot
  u32 movedBytes[NCCL4J_SLOTS];

  u64 word(const char* region, u64 at) const { return loadWordRelaxed(region + channel * NCCL4J_WORD_STRIDE + at); }

  void store(char* region, u64 at, u64 word) const {
    memcpy(region + channel * NCCL4J_WORD_STRIDE + at, &word, sizeof word);
  }

  void turn() {
    switch (simt::random() % 5) {
      case 0:
        if (posted < transmitted + NCCL4J_SLOTS && word(sender.data, 0) > posted) posted++;
        break;
      case 1:
        if (receives < min(word(receiver.credit, 0), received) + NCCL4J_SLOTS) moved[receives++ % NCCL4J_SLOTS] = nullptr;
        break;
      case 2:
        move();
        break;
      case 3:
        if (!stopped && transmitted < posted && received < receives) transmit();
        break;
      default:
        if (told < received) store(receiver.data, 0, ++told);
    }
  }

  // Moves a begun receive to the kernel's buffer.
  void move() {
    const u64 wanted = word(receiver.credit, NCCL4J_WANTED);
    if (received == receives) return;
    const u64 step = received + simt::random() % (receives - received);
    const u64 at = NCCL4J_WANTED_AT + step % NCCL4J_SLOTS * sizeof(nccl4jWanted), facts = word(receiver.credit, at + 8);
    if (wanted <= step || facts >> NCCL4J_WANTED_BYTES != step + 1) return;
    moved[step % NCCL4J_SLOTS] = (char*)word(receiver.credit, at);
    movedBytes[step % NCCL4J_SLOTS] = facts & ((1u << NCCL4J_WANTED_BYTES) - 1);
  }

  void transmit() {
    const u64 step = received;
    const u32 note = noteAt(sender, channel, step), bytes = note & ~NCCL4J_EXPOSED;
    const char* from = slotAt(sender, channel, step);
    if (note & NCCL4J_EXPOSED) {
      from = (char*)word(sender.data, NCCL4J_EXPOSED_FROM + step % NCCL4J_SLOTS * sizeof(u64));
      exposedSteps++;
    }
    if (bytes == 0 || bytes > kSlice) fail("a step's size", channel);
    char* to = moved[step % NCCL4J_SLOTS];
    if (to && movedBytes[step % NCCL4J_SLOTS] != bytes) otherSizes++, to = nullptr;
    if (to) placedSteps++;
    else slotSteps++;
    memcpy(to ? to : slotAt(receiver, channel, step), from, bytes);
    if (to) store(receiver.data, NCCL4J_PLACED + step % NCCL4J_SLOTS * sizeof(u64), step + 1);
    memcpy(callOf((u64)receiver.data, channel, step), callOf((u64)sender.data, channel, step), sizeof(u32));
    received++;
    store(sender.credit, 0, ++transmitted);
  }
};

static std::vector<Message> messages[kMost];
static std::vector<char> sources[kMost], targets[kMost];
static Fan fans[2][kMost];
static exposed::Come comes[kMost];

static char byteOf(int channel, size_t message, u64 at) { return (char)(channel * 101 + message * 37 + at * 7 + (at >> 8) * 3); }

static u64 sliceBytes(const Message& m, u64 at) { return min((u64)kSlice, m.bytes - at); }

static void give(End& end) {
  simt::giveWay();
  if (end.control.abort) fail("a kernel gave up", -1);
}

// In the place of simple.cuh: one thread.
static void sendBySlots(Fan& fan, int channel, const Message& m, const char* data) {
  for (u64 at = 0; at < m.bytes; at += kSlice) {
    const u64 step = fan.sent[0];
    while (loadWordAcquire((void*)fan.sendCredit[0]) + NCCL4J_SLOTS <= step) give(sender);
    memcpy(slotAt(sender, channel, step), data + at, sliceBytes(m, at));
    if (at == 0) storeControl(callOf(fan.sendData[0], channel, step), callWord(step, m.signature));
    storeControl(noteOf(fan.sendData[0], channel, step), sliceBytes(m, at));
    fenceSystem();
    storeWordRelaxed(tailOf(fan.sendData[0], channel), fan.sent[0] = step + 1);
  }
}

static void recvBySlots(Fan& fan, int channel, const Message& m, char* data) {
  for (u64 at = 0; at < m.bytes; at += kSlice) {
    const u64 step = fan.received[0];
    while (loadWordAcquire(tailOf(fan.recvData[0], channel)) <= step) give(receiver);
    const u64 placed = NCCL4J_PLACED + step % NCCL4J_SLOTS * sizeof(u64);
    if (loadWordRelaxed(tailOf(fan.recvData[0], channel) + placed) == step + 1) fail("a step that was not wanted is placed", channel);
    memcpy(data + at, slotAt(receiver, channel, step), sliceBytes(m, at));
    storeWordRelaxed((void*)fan.recvCredit[0], fan.received[0] = step + 1);
  }
}

static void sends(int channel) {
  Fan& fan = fans[0][channel];
  if (threadIdx.x == 0) sender.set(fan, channel, true);
  for (size_t i = 0; i < messages[channel].size(); i++) {
    const Message& m = messages[channel][i];
    char* data = sources[channel].data() + m.sourceOffset;
    if (threadIdx.x == 0)
      for (u64 at = 0; at < m.bytes; at++) data[at] = byteOf(channel, i, at);
    if (m.exposes)
      exposed::transfer(fan, comes[channel], sender.comm, channel, true, data, m.bytes, m.signature);
    else if (threadIdx.x == 0)
      sendBySlots(fan, channel, m, data);
    __syncthreads();
    if (fault != NONE && i + 1 == messages[channel].size()) return;
    if (threadIdx.x == 0) memset(data, 0x5a, m.bytes);
  }
}

static void recvs(int channel) {
  Fan& fan = fans[1][channel];
  if (threadIdx.x == 0) receiver.set(fan, channel, false);
  for (size_t i = 0; i < messages[channel].size(); i++) {
    const Message& m = messages[channel][i];
    std::vector<char>& all = targets[channel];
    char* data = all.data() + m.targetOffset;
    if (threadIdx.x == 0) memset(all.data(), 0x33, all.size());
    __syncthreads();
    const bool last = i + 1 == messages[channel].size();
    const u32 signature = fault == OTHER_CALL && last ? m.signature + 1 : m.signature;
    if (m.wants)
      exposed::transfer(fan, comes[channel], receiver.comm, channel, false, data, m.bytes, signature);
    else if (threadIdx.x == 0)
      recvBySlots(fan, channel, m, data);
    __syncthreads();
    if (fault != NONE && last) return;
    if (threadIdx.x != 0) continue;
    for (u64 at = 0; at < all.size(); at++) {
      const u64 in = at - m.targetOffset;
      if (all[at] != (in < m.bytes ? byteOf(channel, i, in) : 0x33)) {
        printf("byte %lld is 0x%x: message %zu of %llu bytes on channel %d\n", (long long)in, (u8)all[at], i, (u64)m.bytes, channel);
        exit(1);
      }
    }
  }
}

// Lets all run until the blocks have ended, or no kernel can go on.
static void run(std::vector<std::unique_ptr<simt::Block>>& blocks, std::vector<Proxies>& proxies) {
  for (;;) {
    unsigned left = 0;
    for (auto& block : blocks) left += block->ended < kThreads;
    if (left == 0) break;
    if (receiver.control.abort) tick = kBudget / 4;  // ends the sender's wait
    if (fault > OTHER_CALL && proxies[0].received >= stopsAt) {
      proxies[0].stopped = true;
      tick = kBudget / 4;
    }
    const u64 what = simt::random() % 8;
    if (what == 0) arriveAny();
    if (what < 4) proxies[simt::random() % proxies.size()].turn();
    simt::Block& block = *blocks[simt::random() % blocks.size()];
    simt::runWarp(block, simt::random() % block.warps.size());
  }
  while (!lateWords.empty()) arriveAny();
}

static void expect(const End& end, u32 kind) {
  if (end.control.failed != 1 || end.control.failedKind != kind || end.control.failedPeer != 1) {
    printf("failed %u kind %u peer %d\n", end.control.failed, end.control.failedKind, end.control.failedPeer);
    exit(1);
  }
}

int main(int, char** arguments) {
  channels = atoi(arguments[1]);
  const int count = atoi(arguments[2]);
  simt::random.seed(strtoull(arguments[3], nullptr, 10));
  fault = atoi(arguments[4]);
  auto& random = simt::random;
  std::vector<Proxies> proxies;
  std::vector<std::unique_ptr<simt::Block>> blocks;
  for (int channel = 0; channel < channels; channel++) {
    sources[channel].resize(30 * kSlice + kGuard);
    targets[channel].resize(30 * kSlice + 2 * kGuard);
    for (int i = 0; i < count; i++) {
      const u64 bytes = random() % 5 == 0 ? kSlice * (1 + random() % 20) : random() % 4 == 0 ? random() % 3 : random() % (28 * kSlice);
      messages[channel].push_back({bytes, random() % 3 > 0, random() % 3 > 0, (u32)(1 + random() % 60000), (u32)(random() % kGuard), (u32)(random() % (2 * kGuard))});
    }
    Message& last = messages[channel].back();
    if (fault != NONE) last.bytes = 20 * kSlice, last.exposes = last.wants = true;
    proxies.push_back({channel});
    blocks.push_back(simt::start(channel, channels, kThreads, [channel] { sends(channel); }));
    blocks.push_back(simt::start(channel, channels, kThreads, [channel] { recvs(channel); }));
  }
  if (fault == NONE) {
    run(blocks, proxies);
    for (int channel = 0; channel < channels; channel++) {
      u64 steps = 0;
      for (const Message& m : messages[channel]) steps += (m.bytes + kSlice - 1) / kSlice;
      if (fans[0][channel].sent[0] != steps || fans[1][channel].received[0] != steps) fail("steps", channel);
    }
    printf("exposed %ld, placed %ld, in slots %ld\n", exposedSteps, placedSteps, slotSteps);
    return otherSizes != 0;
  }
  for (const Message& m : messages[0]) stopsAt += (m.bytes + kSlice - 1) / kSlice;
  stopsAt -= 1 + random() % 20;
  run(blocks, proxies);
  expect(receiver, fault == OTHER_CALL ? kOtherCall : 0);
  expect(sender, 1);
  puts("both gave up");
  return 0;
}
