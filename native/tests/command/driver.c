/* A CUDA driver as far as the probe asks one; what is wrong with it is defined when it is compiled. */
#include <stddef.h>
#include <string.h>

#ifndef VERSION
#define VERSION 12080
#endif
#ifndef INIT
#define INIT 0
#endif
#ifndef DEVICES
#define DEVICES 0
#endif
#ifndef NAME
#define NAME 0
#endif

static int ready = 0;

int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cuInit(unsigned flags) { ready = INIT == 0 && flags == 0; return flags == 0 ? INIT : 1; }

int cuDeviceGetCount(int *count) {
    if (!ready) return 3;
    *count = DEVICES;
    return 0;
}

/* Handles differ from ordinals, so that one is not taken for the other. */
int cuDeviceGet(int *device, int ordinal) {
    if (!ready) return 3;
    if (ordinal < 0 || DEVICES <= ordinal) return 101;
    *device = 40 + ordinal;
    return 0;
}

static int known(int device) { return ready && 40 <= device && device < 40 + DEVICES; }

int cuDeviceGetName(char *name, int length, int device) {
    if (!known(device)) return 101;
    strncpy(name, "Test GPU", (size_t)length);
    return NAME;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (!known(device)) return 101;
    switch (attribute) {
    case 16: *value = 132; return 0;
    case 33: *value = 0x17 + (device - 40); return 0;
    case 34: *value = 0x0a; return 0;
    case 40: *value = 3; return 0;
    case 50: *value = 1; return 0;
    case 75: *value = 9; return 0;
    case 76: *value = 0; return 0;
    default: return 801;
    }
}

#ifndef PARTIAL
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    if (!known(device)) return 101;
    *bytes = (size_t)80 << 30;
    return 0;
}

/* Only the second device reaches the first. */
int cuDeviceCanAccessPeer(int *can, int device, int peer) {
    if (!known(device) || !known(peer)) return 101;
    *can = device == 41 && peer == 40;
    return 0;
}
#endif
