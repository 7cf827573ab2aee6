"""A stand-in for NVIDIA's management library: a shared object with its functions, built by cc.

What the GPU does is in a file that the library reads at each call, one ``name value`` per line.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

UUID = "GPU-8a1f0a9e-0000-1111-2222-333344445555"
_SOURCE = r"""
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
typedef unsigned int u; typedef unsigned long long ull;
static const char *path = "@STATE@";
static int value(const char *name, ull *into) {
  FILE *file = fopen(path, "r"); char key[64]; ull number; int found = 0;
  if (!file) return 0;
  while (fscanf(file, "%63s %llu", key, &number) == 2)
    if (!strcmp(key, name)) { *into = number; found = 1; }
  fclose(file); return found;
}
static int one(const char *name, u *into) {
  ull number; if (!value(name, &number)) return 3;
  *into = (u)number; return 0;
}
static int wide(const char *name, ull *into) { return value(name, into) ? 0 : 3; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
  *device = (void *)0x7f0000001234; return strcmp(uuid, "@UUID@") ? 6 : 0;
}
static int bad(void *device) { return device != (void *)0x7f0000001234; }
int nvmlDeviceGetName(void *d, char *name, u length) {
  if (bad(d)) return 2; snprintf(name, length, "NVIDIA Stand-in"); return 0;
}
int nvmlDeviceGetClockInfo(void *d, u kind, u *v) {
  return bad(d) ? 2 : one(kind == 1 ? "sm" : kind == 2 ? "memory" : "?", v);
}
int nvmlDeviceGetPowerUsage(void *d, u *v) { return bad(d) ? 2 : one("power", v); }
int nvmlDeviceGetTotalEnergyConsumption(void *d, ull *v) {
  return bad(d) ? 2 : wide("energy", v);
}
int nvmlDeviceGetEnforcedPowerLimit(void *d, u *v) { return bad(d) ? 2 : one("limit", v); }
int nvmlDeviceGetTemperature(void *d, u s, u *v) { return bad(d) || s ? 2 : one("heat", v); }
int nvmlDeviceGetCurrPcieLinkGeneration(void *d, u *v) { return bad(d) ? 2 : one("gen", v); }
int nvmlDeviceGetCurrPcieLinkWidth(void *d, u *v) { return bad(d) ? 2 : one("width", v); }
int nvmlDeviceGetTotalEccErrors(void *d, u kind, u counter, ull *v) {
  return bad(d) || counter ? 2 : wide(kind ? "uncorrected" : "corrected", v);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, ull *v) {
  return bad(d) ? 2 : wide("reasons", v);
}
typedef struct { u gpu, memory; } used;
int nvmlDeviceGetUtilizationRates(void *d, used *v) {
  v->memory = 1; return bad(d) ? 2 : one("used", &v->gpu);
}
typedef struct { ull total, free, used; } memory;
int nvmlDeviceGetMemoryInfo(void *d, memory *v) { return bad(d) ? 2 : wide("bytes", &v->used); }
int nvmlEventSetCreate(void **set) { *set = (void *)0x7e0000000001; return 0; }
int nvmlEventSetFree(void *set) { return 0; }
int nvmlDeviceRegisterEvents(void *d, ull kinds, void *set) {
  return bad(d) || kinds != 8 || set != (void *)0x7e0000000001;
}
typedef struct { void *device; ull kind, data; u gpu, compute; } event;
static ull seen = 0;
int nvmlEventSetWait_v2(void *set, event *v, u milliseconds) {
  ull number = 0;
  if (milliseconds || !value("xid", &number) || number == seen) return 10;
  seen = v->data = number; return 0;
}
"""


class NvmlLibrary:
    """The library and the state of its GPU.

    Args:
        folder: Where both are put.
    """

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler")
        self._state = folder / "gpu.txt"
        source, self.path = folder / "nvml.c", str(folder / "libnvidia-ml.so.1")
        text = _SOURCE.replace("@STATE@", str(self._state)).replace("@UUID@", UUID)
        source.write_text(text)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self.path, source], check=True)

    def set(self, **values: int) -> None:
        """Let the GPU have these values, and support nothing else."""
        self._state.write_text("".join(f"{name} {value}\n" for name, value in values.items()))
