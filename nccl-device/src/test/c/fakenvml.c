// A libnvidia-ml.so.1 for tests without a driver, with three GPUs:
//   0: compute capability 9.0, 18 links to a switch that is not shown, one of them down; ten C2C links
//      of which one is down.
//   1: 8.0, four links to GPU 2 (one more cannot be used by peers, one is down, one has no known
//      end), four to a switch at C1, one whose end is not text. No peer access to GPU 0.
//   2: 8.0, four links to GPU 1.
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

static char devices[3];
static const char* const ADDRESS[] = {"0000:1B:00.0", "0000:3D:00.0", "0000:5E:00.0"};
static int at(Device device) { return (int)((char*)device - devices); }
static void fill(Pci* pci, const char* address) {
  memset(pci, 0, sizeof *pci);
  snprintf(pci->legacy, sizeof pci->legacy, "%s", address);
  snprintf(pci->busId, sizeof pci->busId, "0000%s", address);
}

// NCCL4J_FAKE_NVML=off: a driver that is not loaded.
int nvmlInit_v2(void) {
  const char* off = getenv("NCCL4J_FAKE_NVML");
  return off && !strcmp(off, "off") ? 9 : 0;
}
const char* nvmlErrorString(int result) { return result == 9 ? "Driver Not Loaded" : "Unknown Error"; }
int nvmlDeviceGetCount_v2(unsigned* count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = devices + index;
  return index < 3 ? 0 : 2;
}
int nvmlDeviceGetPciInfo_v3(Device device, Pci* pci) {
  fill(pci, ADDRESS[at(device)]);
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  *major = at(device) == 0 ? 9 : 8;
  *minor = 0;
  return 0;
}
int nvmlDeviceGetNvLinkCapability(Device device, unsigned link, int capability, unsigned* yes) {
  if (capability != 0) return 2;
  *yes = !(at(device) == 1 && link == 8);
  return 0;
}
int nvmlDeviceGetNvLinkState(Device device, unsigned link, int* active) {
  if (at(device) == 0) return 3;  // Not on Hopper: a field tells there.
  *active = at(device) == 1 ? link != 9 : link < 4;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, Pci* pci) {
  if (at(device) == 0) return fill(pci, ""), 0;
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
    if (f->field == 165) f->value.u = f->scope != 17;
    else if (f->field == 170) f->value.u = 10;
    else if (f->field == 171) f->value.u = f->scope != 3;
    else if (f->field == 172) f->value.u = 44712;
    else f->result = 3;
  }
  return 0;
}
int nvmlDeviceGetP2PStatus(Device device, Device other, int capability, int* status) {
  *status = at(device) + at(other) == 1 ? 4 : 0;
  return 0;
}
