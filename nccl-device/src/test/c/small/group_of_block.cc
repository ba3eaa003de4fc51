// Has every block of launches of any size find its group (p2p_small.cuh), and compares with the table.
//   group_of_block SEED
// Prints the first error, or that all are found.
#include "on_host.h"
#include "p2p_small.cuh"

using namespace nccl4j;

int main(int, char** arguments) {
  simt::random.seed(strtoull(arguments[1], nullptr, 10));
  simt::Block block;
  simt::Thread thread{&block};
  simt::current = &thread;
  for (u32 nGroups : {1, 2, 31, 32, 33, 64, 65, 500, 8191, 16384}) {
    std::vector<nccl4jGroup> groups(nGroups);
    u32 blocks = 0;
    for (u32 g = 0; g < nGroups;) {  // some in pairs, which share blocks in turn
      const u32 channels = 1 + simt::random() % 3, n = g + 1 < nGroups ? 1 + simt::random() % 2 : 1;
      for (u32 i = 0; i < n; i++, g++) {
        groups[g].firstBlock = (uint16_t)(blocks + i);
        groups[g].blockStep = (uint8_t)n;
        groups[g].nBlocks = (uint16_t)channels;
      }
      blocks += n * channels;
    }
    nccl4jP2pArguments a;
    a.nGroups = nGroups;
    for (u32 g = 0; g < nGroups; g++) {
      for (u32 channel = 0; channel < groups[g].nBlocks; channel++) {
        block.index = {groups[g].firstBlock + channel * groups[g].blockStep};
        const BlockOfGroup found = blockOfGroup(a, groups.data());
        if (found.group != g || found.channel != channel) {
          printf("block %u of %u groups: group %u, channel %u\n", block.index.x, nGroups, found.group, found.channel);
          return 1;
        }
      }
    }
  }
  printf("all found\n");
  return 0;
}
