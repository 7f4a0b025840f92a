/* What a GPU, or a MIG device of one, says of itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"

API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    ENTER_DEVICE("nvmlDeviceGetName");
    return give_text(device, "name", name, length);
}

API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    ENTER_DEVICE("nvmlDeviceGetUUID");
    return give_text(device, "uuid", uuid, length);
}

API nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length)
{
    ENTER_DEVICE("nvmlDeviceGetSerial");
    return give_text(device, "serial", serial, length);
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    ENTER_DEVICE("nvmlDeviceGetPciInfo");
    const char *bus = value_of(device, "bus");
    memset(pci, 0, sizeof *pci);
    if (bus == NULL || sscanf(bus, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3)
        return NVML_ERROR_NOT_SUPPORTED;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
    pci->pciDeviceId = (unsigned)number_of(device, "pci_device", 0x233010de);
    pci->pciSubSystemId = (unsigned)number_of(device, "pci_subsystem", 0);
    return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return nvmlDeviceGetPciInfo_v3(device, pci);
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    ENTER_DEVICE("nvmlDeviceGetMemoryInfo");
    if (value_of(device, "memory") == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    memory->total = number_of(device, "memory", 0);
    memory->used = number_of(device, "memory_used", 0) + number_of(device, "memory_reserved", 0);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    ENTER_DEVICE("nvmlDeviceGetMemoryInfo");
    if (memory->version != (sizeof *memory | 2 << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (value_of(device, "memory") == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    memory->total = number_of(device, "memory", 0);
    memory->reserved = number_of(device, "memory_reserved", 0);
    memory->used = number_of(device, "memory_used", 0);
    memory->free = memory->total - memory->used - memory->reserved;
    return NVML_SUCCESS;
}

/* Numbers that are one line of the file each. */
#define NUMBER(call, key)                                                                                              \
    API nvmlReturn_t call(nvmlDevice_t device, unsigned *number)                                                       \
    {                                                                                                                  \
        ENTER_DEVICE(#call);                                                                                           \
        return give(device, key, number);                                                                              \
    }

NUMBER(nvmlDeviceGetMinorNumber, "minor")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation_max")
NUMBER(nvmlDeviceGetMaxMigDeviceCount, "mig_most")
NUMBER(nvmlDeviceGetPowerUsage, "power")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit")
NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetGpuInstanceId, "gpu_instance")
NUMBER(nvmlDeviceGetComputeInstanceId, "compute_instance")

/* Two numbers: now, and after the next reset. */
#define MODE(call, key)                                                                                                \
    API nvmlReturn_t call(nvmlDevice_t device, unsigned *current, unsigned *pending)                                   \
    {                                                                                                                  \
        ENTER_DEVICE(#call);                                                                                           \
        nvmlReturn_t given = give(device, key, current);                                                               \
        if (given == NVML_SUCCESS)                                                                                     \
            *pending = (unsigned)number_of(device, key "_pending", *current);                                          \
        return given;                                                                                                  \
    }

MODE(nvmlDeviceGetMigMode, "mig")
MODE(nvmlDeviceGetEccMode, "ecc")

/* ECC: error type 0 is corrected, 1 uncorrected; counter 0 is since the driver was loaded, 1 of the GPU's life. */
API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter, u64 *number)
{
    static const char *const keys[2][2] = {{"ecc_corrected", "ecc_corrected_ever"},
                                           {"ecc_uncorrected", "ecc_uncorrected_ever"}};
    ENTER_DEVICE("nvmlDeviceGetTotalEccErrors");
    if (type > 1 || counter > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (number_of(device, "ecc", 0) == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *number = number_of(device, keys[type][counter], 0);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                                           unsigned *pending, unsigned *failed)
{
    ENTER_DEVICE("nvmlDeviceGetRemappedRows");
    if (value_of(device, "remapped") == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    return sscanf(value_of(device, "remapped"), "%u,%u,%u,%u", corrected, uncorrected, pending, failed) == 4
               ? NVML_SUCCESS
               : NVML_ERROR_UNKNOWN;
}

API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    ENTER_DEVICE("nvmlDeviceGetFieldValues");
    for (int one = 0; one < count; one++) {
        int known = values[one].fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION && value_of(device, "recovery") != NULL;
        values[one].nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        values[one].value.uiVal = (unsigned)number_of(device, "recovery", 0);
    }
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    ENTER_DEVICE("nvmlDeviceGetUtilizationRates");
    if (number_of(device, "mig", 0) != 0)
        return NVML_ERROR_NOT_SUPPORTED; /* of a GPU that is divided nobody measures it */
    rates->memory = (unsigned)number_of(device, "utilization_memory", 0);
    return give(device, "utilization", &rates->gpu);
}

API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *degrees)
{
    ENTER_DEVICE("nvmlDeviceGetTemperature");
    return sensor == 0 ? give(device, "temperature", degrees) : NVML_ERROR_INVALID_ARGUMENT;
}

API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *answer)
{
    ENTER_DEVICE("nvmlDeviceGetTemperature");
    if (answer->version != (sizeof *answer | 1 << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return answer->sensorType == 0 ? give(device, "temperature", (unsigned *)&answer->temperature)
                                   : NVML_ERROR_INVALID_ARGUMENT;
}

API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *megahertz)
{
    static const char *const keys[] = {"clock_graphics", "clock_sm", "clock_memory", "clock_video"};
    ENTER_DEVICE("nvmlDeviceGetClockInfo");
    return type < 4 ? give(device, keys[type], megahertz) : NVML_ERROR_INVALID_ARGUMENT;
}

API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned type, unsigned *megahertz)
{
    static const char *const keys[] = {"clock_graphics_max", "clock_sm_max", "clock_memory_max", "clock_video_max"};
    ENTER_DEVICE("nvmlDeviceGetMaxClockInfo");
    return type < 4 ? give(device, keys[type], megahertz) : NVML_ERROR_INVALID_ARGUMENT;
}

API nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, u64 *reasons)
{
    ENTER_DEVICE("nvmlDeviceGetCurrentClocksEventReasons");
    if (value_of(device, "reasons") == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    *reasons = number_of(device, "reasons", 0);
    return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, u64 *reasons)
{
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}

/* MIG. */

API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *mig)
{
    ENTER_DEVICE("nvmlDeviceGetMigDeviceHandleByIndex");
    if (index >= number_of(device, "mig_most", 7))
        return NVML_ERROR_INVALID_ARGUMENT;
    *mig = number_of(device, "mig", 0) != 0 ? described("mig", device, index) : NULL;
    return *mig == NULL ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *parent)
{
    ENTER_DEVICE("nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
    if (!is_described(device, "mig"))
        return NVML_ERROR_INVALID_ARGUMENT;
    *parent = described_parent(device);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_mig)
{
    ENTER_DEVICE("nvmlDeviceIsMigDeviceHandle");
    *is_mig = (unsigned)is_described(device, "mig");
    return NVML_SUCCESS;
}

/* A profile of GPU instances: `profile.PROFILE = ID NAME MOST SIZE START,START…`, PROFILE as in nvml.h. */
struct profile {
    unsigned id, most, size, places;
    char name[64];
    unsigned starts[16];
};

static int profile_in(nvmlDevice_t device, unsigned profile, struct profile *one)
{
    char key[32], starts[96];
    snprintf(key, sizeof key, "profile.%u", profile);
    const char *text = value_of(device, key);
    if (text == NULL || sscanf(text, "%u %63s %u %u %95s", &one->id, one->name, &one->most, &one->size, starts) != 5)
        return 0;
    one->places = 0;
    for (char *next = strtok(starts, ","); next != NULL && one->places < 16; next = strtok(NULL, ","))
        one->starts[one->places++] = (unsigned)strtoul(next, NULL, 10);
    return 1;
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned profile,
                                                      nvmlGpuInstanceProfileInfo_v2_t *info)
{
    struct profile found;
    ENTER_DEVICE("nvmlDeviceGetGpuInstanceProfileInfo");
    if (info->version != (sizeof *info | 2 << 24) || profile >= NVML_GPU_INSTANCE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (number_of(device, "mig", 0) == 0 || !profile_in(device, profile, &found))
        return NVML_ERROR_NOT_SUPPORTED; /* nvml.h: also where MIG is off */
    memset(&info->id, 0, sizeof *info - sizeof info->version);
    info->id = found.id;
    info->instanceCount = found.most;
    snprintf(info->name, sizeof info->name, "MIG %s", found.name);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned id,
                                                               nvmlGpuInstancePlacement_t *placements,
                                                               unsigned *count)
{
    struct profile found;
    ENTER_DEVICE("nvmlDeviceGetGpuInstancePossiblePlacements");
    for (unsigned profile = 0; profile < NVML_GPU_INSTANCE_PROFILE_COUNT; profile++) {
        if (!profile_in(device, profile, &found) || found.id != id)
            continue;
        for (unsigned place = 0; placements != NULL && place < found.places; place++)
            placements[place] = (nvmlGpuInstancePlacement_t){found.starts[place], found.size};
        *count = found.places;
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

/* Processes: those of a GPU, its MIG devices' included, which the privileged alone see. */

static nvmlReturn_t give_processes(nvmlDevice_t device, const char *type, unsigned *number, nvmlProcessInfo_t *infos)
{
    unsigned room = *number, found = 0;
    struct section *process;
    for (unsigned index = 0; (process = described("process", NULL, index)) != NULL; index++) {
        struct section *owner = described_parent(process);
        const char *is = value_of(process, "type");
        if ((owner != device && described_parent(owner) != device) || strcmp(is ? is : "compute", type) != 0)
            continue;
        if (found < room && infos != NULL) {
            infos[found].pid = (unsigned)number_of(process, "pid", 0);
            infos[found].usedGpuMemory = number_of(process, "memory", ~0ULL);
            infos[found].gpuInstanceId = (unsigned)number_of(owner, "gpu_instance", 0xffffffff);
            infos[found].computeInstanceId = (unsigned)number_of(owner, "compute_instance", 0xffffffff);
        }
        found++;
    }
    *number = found;
    return found > room || (found > 0 && infos == NULL) ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define PROCESSES(call, type, version)                                                                                 \
    API nvmlReturn_t call##version(nvmlDevice_t device, unsigned *number, nvmlProcessInfo_t *infos)                    \
    {                                                                                                                  \
        ENTER_DEVICE(#call);                                                                                           \
        return give_processes(device, type, number, infos);                                                            \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses, "compute", _v2)
PROCESSES(nvmlDeviceGetComputeRunningProcesses, "compute", _v3)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "graphics", _v2)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "graphics", _v3)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, "mps", _v3)
