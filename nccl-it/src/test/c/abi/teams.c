// Four ranks in two processes that count as two hosts: which of them reach each other's memory.
// Needs NCCL4J_DEVICE=host.
#include "checks.h"
#include <sys/wait.h>

enum { RANKS = 4, EACH = 2 };
static ncclUniqueId id;
static int first;

static void rank(int place) {
  int rank = first + place;
  ncclComm_t comm;
  OK(ncclCommInitRank(&comm, RANKS, id, rank));
  ncclCommProperties_t properties;
  memset(&properties, 0, sizeof properties);
  properties.size = sizeof properties;
  properties.magic = (unsigned)CONFIG_MAGIC;
  OK(ncclCommQueryProperties(comm, &properties));
  CHECK(properties.nLsaTeams == RANKS / EACH);
  ncclTeam_t world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm), rail = ncclTeamRail(comm);
  CHECK(lsa.nRanks == EACH && lsa.rank == place && lsa.stride == 1);
  CHECK(rail.nRanks == RANKS / EACH && rail.rank == rank / EACH && rail.stride == EACH);
  CHECK(ncclTeamRankToLsa(comm, lsa, 1) == 1);
  CHECK(ncclTeamRankToLsa(comm, world, rank) == place);
  CHECK(ncclTeamRankToWorld(comm, rail, 1) == EACH + place);
  OK(ncclCommDestroy(comm));
}

int main(void) {
  int ends[2], status;
  CHECK(!pipe(ends));
  pid_t other = fork();
  CHECK(other >= 0);
  if (other) {
    CHECK(!setenv("NCCL_HOSTID", "one", 1));
    OK(ncclGetUniqueId(&id));
    CHECK(write(ends[1], &id, sizeof id) == sizeof id);
  } else {
    CHECK(!setenv("NCCL_HOSTID", "other", 1));
    CHECK(read(ends[0], &id, sizeof id) == sizeof id);
    first = EACH;
  }
  run_ranks(EACH, rank);
  if (!other) _exit(0);
  CHECK(waitpid(other, &status, 0) == other && status == 0);
  puts("all was right");
  return 0;
}
