/* A libnvidia-ml.so.1 that answers what a small file says (README.md): the system, and handles of GPUs. */
#include <string.h>

#include "answer.h"

/* The system. */

static nvmlReturn_t begin_use(void)
{
    if (!describe())
        return NVML_ERROR_DRIVER_NOT_LOADED;
    nvmlReturn_t fault = fault_in(described_system(), "nvmlInit");
    users += fault == NVML_SUCCESS;
    return fault;
}

API nvmlReturn_t nvmlInit(void) { return begin_use(); }
API nvmlReturn_t nvmlInit_v2(void) { return begin_use(); }
API nvmlReturn_t nvmlInitWithFlags(unsigned flags) { return (void)flags, begin_use(); }

API nvmlReturn_t nvmlShutdown(void)
{
    ENTER("nvmlShutdown");
    users--;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    ENTER("nvmlSystemGetDriverVersion");
    return give_text(described_system(), "driver", version, length);
}

API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    ENTER("nvmlSystemGetNVMLVersion");
    return give_text(described_system(), "nvml", version, length);
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    ENTER("nvmlSystemGetCudaDriverVersion");
    return give(described_system(), "cuda", (unsigned *)version);
}
API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *number)
{
    ENTER("nvmlDeviceGetCount");
    for (*number = 0; described("gpu", NULL, *number) != NULL;)
        ++*number;
    return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetCount(unsigned *number) { return nvmlDeviceGetCount_v2(number); }

/* Handles. A lost GPU still counts, and gives no handle; `lost = later`: its handle answers that it is lost. */

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    ENTER("nvmlDeviceGetHandleByIndex");
    *device = described("gpu", NULL, index);
    if (*device == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    const char *lost = value_of(*device, "lost");
    if (lost != NULL && strcmp(lost, "later") != 0)
        return NVML_ERROR_GPU_IS_LOST;
    return fault_in(*device, "nvmlDeviceGetHandleByIndex");
}
API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    ENTER("nvmlDeviceGetHandleByUUID");
    for (int kind = 0; kind < 2; kind++)
        for (unsigned index = 0; (*device = described(kind ? "mig" : "gpu", NULL, index)) != NULL; index++) {
            const char *value = value_of(*device, "uuid");
            if (value != NULL && strcmp(value, uuid) == 0)
                return value_of(*device, "lost") != NULL ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    ENTER_DEVICE("nvmlDeviceGetIndex");
    for (*index = 0; described(device->kind, NULL, *index) != device;)
        ++*index;
    return NVML_SUCCESS;
}
