/* What NVIDIA's nvml.h says of the calls that the fake has: numbers, structures and names, as of NVML 12. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

typedef int nvmlReturn_t;
typedef struct section *nvmlDevice_t;
typedef unsigned long long u64;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_LIBRARY_NOT_FOUND = 12,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_CORRUPTED_INFOROM = 14,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_OPERATING_SYSTEM = 17,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
};

typedef struct {
    u64 total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned version; /* sizeof | 2 << 24 */
    u64 total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned gpu, memory;
} nvmlUtilization_t;

/* nvmlProcessInfo_v2_t, which the calls _v2 and _v3 give. */
typedef struct {
    unsigned pid;
    u64 usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    unsigned version; /* sizeof | 1 << 24 */
    unsigned sensorType;
    int temperature;
} nvmlTemperature_t;

typedef struct {
    unsigned version; /* sizeof | 2 << 24 */
    unsigned id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount, decoderCount,
        encoderCount, jpegCount, ofaCount;
    u64 memorySizeMB;
    char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
    unsigned start, size;
} nvmlGpuInstancePlacement_t;

typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType; /* an enumeration */
    nvmlReturn_t nvmlReturn;
    union {
        double dVal;
        unsigned uiVal;
        u64 ullVal;
    } value;
} nvmlFieldValue_t;

enum { NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230 };

typedef struct sample *nvmlGpmSample_t;

typedef struct {
    unsigned version, isSupportedDevice; /* version 1 */
} nvmlGpmSupport_t;

typedef struct {
    unsigned metricId;
    nvmlReturn_t nvmlReturn;
    double value;
    struct {
        char *shortName, *longName, *unit;
    } metricInfo;
} nvmlGpmMetric_t;

typedef struct {
    unsigned version, numMetrics; /* version 1 */
    nvmlGpmSample_t sample1, sample2;
    nvmlGpmMetric_t metrics[333];
} nvmlGpmMetricsGet_t;

enum { NVML_GPM_METRIC_GRAPHICS_UTIL = 1 };

enum { NVML_GPU_INSTANCE_PROFILE_COUNT = 0x12 };

_Static_assert(sizeof(nvmlPciInfo_t) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(nvmlProcessInfo_t) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(nvmlTemperature_t) == 12, "nvmlTemperature_v1_t");
_Static_assert(sizeof(nvmlGpmMetric_t) == 40, "nvmlGpmMetric_t");
_Static_assert(sizeof(nvmlGpuInstanceProfileInfo_v2_t) == 152, "nvmlGpuInstanceProfileInfo_v2_t");

#endif
