// A libnvidia-ml.so.1 for tests without a driver, with three GPUs:
//   0: compute capability 9.0, 18 links to a switch that is not shown, one of them down; ten C2C links
//      of which one is down.
//   1: 8.0, four links to GPU 2 (one more cannot be used by peers, one is down, one has no known
//      end), four to a switch at C1, one whose end is not text. No peer access to GPU 0.
//   2: 8.0, four links to GPU 1.
// With FAKE_NVML=two the GPUs of the fake driver instead: two of compute capability 9.0, with 18
// links to a switch that is not shown; or =apart, without links and peer access. FAKE_FABRIC says what fabric all GPUs are part of:
// state:status:UUID (every byte, hexadecimal):clique:chassis. Nothing is known of it without.
// Structures are laid out as the library's reference says.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void* Device;
typedef struct {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char busId[32];
} Pci;
typedef struct {
  unsigned field, scope;
  long long timestamp, latency;
  int type, result;
  union {
    double d;
    unsigned u;
    unsigned long long l;
  } value;
} Field;

typedef struct {
  unsigned version;
  unsigned char uuid[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
} Fabric;
typedef struct {
  unsigned version;
  unsigned char guid[16], chassis[16], slot, tray, host, peer, module;
} Platform;

static char devices[3];
static const char* const ADDRESS[] = {"0000:1B:00.0", "0000:3D:00.0", "0000:5E:00.0"};
static const char* const OF_TWO[] = {"0000:0A:00.0", "0000:0B:00.0"};
static int two(void) {
  const char* which = getenv("FAKE_NVML");
  return which && (!strcmp(which, "two") || !strcmp(which, "apart"));
}
static int apart(void) { return two() && !strcmp(getenv("FAKE_NVML"), "apart"); }
static int at(Device device) { return (int)((char*)device - devices); }
static void fill(Pci* pci, const char* address) {
  memset(pci, 0, sizeof *pci);
  snprintf(pci->legacy, sizeof pci->legacy, "%s", address);
  snprintf(pci->busId, sizeof pci->busId, "0000%s", address);
}

// FAKE_NVML=off: a driver that is not loaded.
int nvmlInit_v2(void) {
  const char* off = getenv("FAKE_NVML");
  return off && !strcmp(off, "off") ? 9 : 0;
}
const char* nvmlErrorString(int result) { return result == 9 ? "Driver Not Loaded" : "Unknown Error"; }
int nvmlDeviceGetCount_v2(unsigned* count) { *count = two() ? 2 : 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = devices + index;
  return index < 3 ? 0 : 2;
}
int nvmlDeviceGetPciInfo_v3(Device device, Pci* pci) {
  fill(pci, two() ? OF_TWO[at(device)] : ADDRESS[at(device)]);
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  *major = at(device) == 0 || two() ? 9 : 8;
  *minor = 0;
  return 0;
}
int nvmlDeviceGetNvLinkCapability(Device device, unsigned link, int capability, unsigned* yes) {
  if (capability != 0) return 2;
  *yes = apart() ? 0 : two() || !(at(device) == 1 && link == 8);
  return 0;
}
int nvmlDeviceGetNvLinkState(Device device, unsigned link, int* active) {
  if (at(device) == 0 || two()) return 3;  // Not on Hopper: a field tells there.
  *active = at(device) == 1 ? link != 9 : link < 4;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, Pci* pci) {
  if (at(device) == 0 || two()) return fill(pci, ""), 0;
  if (at(device) == 2) return fill(pci, ADDRESS[1]), 0;
  if (link == 10) return 999;
  fill(pci, link < 4 ? ADDRESS[2] : link < 8 ? "0000:C1:00.0" : "\x01\x02");
  return 0;
}
int nvmlDeviceGetFieldValues(Device device, int count, Field* values) {
  for (int i = 0; i < count; i++) {
    Field* f = values + i;
    f->result = 0;
    f->value.l = 0;
    if (f->field == 165) f->value.u = two() || f->scope != 17;
    else if (f->field == 170) f->value.u = 10;
    else if (f->field == 171) f->value.u = f->scope != 3;
    else if (f->field == 172) f->value.u = 44712;
    else f->result = 3;
  }
  return 0;
}
int nvmlDeviceGetP2PStatus(Device device, Device other, int capability, int* status) {
  *status = (apart() || !two()) && at(device) + at(other) == 1 ? 4 : 0;
  return 0;
}
#ifndef WITHOUT_FABRIC
#define VERSION(type) (unsigned)(sizeof(type) | 2 << 24)
int nvmlDeviceGetGpuFabricInfoV(Device device, Fabric* f) {
  const char* said = getenv("FAKE_FABRIC");
  unsigned state, uuid;
  if (f->version != VERSION(Fabric)) return 25;
  if (!said || sscanf(said, "%u:%d:%x:%u", &state, &f->status, &uuid, &f->clique) != 4) return 3;
  memset(f->uuid, uuid, sizeof f->uuid);
  f->state = state;
  return at(device) < 0 ? 2 : 0;
}
int nvmlDeviceGetPlatformInfo(Device device, Platform* p) {
  const char* said = getenv("FAKE_FABRIC");
  char chassis[17] = "";
  if (p->version != VERSION(Platform)) return 25;
  if (!said || sscanf(said, "%*[^:]:%*[^:]:%*[^:]:%*[^:]:%16s", chassis) != 1) return 3;
  memcpy(p->chassis, chassis, sizeof p->chassis);
  return at(device) < 0 ? 2 : 0;
}
#endif
