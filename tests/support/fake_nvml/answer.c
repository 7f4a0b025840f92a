/* What a call answers: an error or a hang that the file asks for, or what the file says. */
#include "answer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int users;

static const struct {
    const char *name;
    nvmlReturn_t code;
} errors[] = {
    {"SUCCESS", NVML_SUCCESS},
    {"UNINITIALIZED", NVML_ERROR_UNINITIALIZED},
    {"INVALID_ARGUMENT", NVML_ERROR_INVALID_ARGUMENT},
    {"NOT_SUPPORTED", NVML_ERROR_NOT_SUPPORTED},
    {"NO_PERMISSION", NVML_ERROR_NO_PERMISSION},
    {"NOT_FOUND", NVML_ERROR_NOT_FOUND},
    {"INSUFFICIENT_SIZE", NVML_ERROR_INSUFFICIENT_SIZE},
    {"DRIVER_NOT_LOADED", NVML_ERROR_DRIVER_NOT_LOADED},
    {"TIMEOUT", NVML_ERROR_TIMEOUT},
    {"LIBRARY_NOT_FOUND", NVML_ERROR_LIBRARY_NOT_FOUND},
    {"FUNCTION_NOT_FOUND", NVML_ERROR_FUNCTION_NOT_FOUND},
    {"CORRUPTED_INFOROM", NVML_ERROR_CORRUPTED_INFOROM},
    {"GPU_IS_LOST", NVML_ERROR_GPU_IS_LOST},
    {"RESET_REQUIRED", NVML_ERROR_RESET_REQUIRED},
    {"OPERATING_SYSTEM", NVML_ERROR_OPERATING_SYSTEM},
    {"LIB_RM_VERSION_MISMATCH", NVML_ERROR_LIB_RM_VERSION_MISMATCH},
    {"MEMORY", NVML_ERROR_MEMORY},
    {"ARGUMENT_VERSION_MISMATCH", NVML_ERROR_ARGUMENT_VERSION_MISMATCH},
    {"UNKNOWN", NVML_ERROR_UNKNOWN},
};

/* What `fault.CALL` says: an error, `hang`, or `write PATH` (a write that a frozen file system stops for good). */
nvmlReturn_t fault_in(const struct section *one, const char *call)
{
    char key[64];
    snprintf(key, sizeof key, "fault.%s", call);
    const char *fault = value_of(one, key);
    if (fault == NULL)
        return NVML_SUCCESS;
    if (strcmp(fault, "hang") == 0)
        for (;;)
            pause();
    if (strncmp(fault, "write ", 6) == 0) {
        int file = open(fault + 6, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (file >= 0 && write(file, "x", 1) == 1)
            close(file);
        return NVML_SUCCESS;
    }
    for (unsigned number = 0; number < sizeof errors / sizeof *errors; number++)
        if (strcmp(errors[number].name, fault) == 0)
            return errors[number].code;
    return NVML_ERROR_UNKNOWN;
}

/* What every call begins with. `call` is without its version: one fault is for all of them. */
nvmlReturn_t enter(const char *call)
{
    if (!describe())
        return NVML_ERROR_DRIVER_NOT_LOADED;
    nvmlReturn_t fault = fault_in(described_system(), call);
    if (fault != NVML_SUCCESS)
        return fault;
    return users > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t enter_device(const char *call, nvmlDevice_t device)
{
    nvmlReturn_t fault = enter(call);
    if (fault != NVML_SUCCESS)
        return fault;
    if (!is_described(device, NULL) || is_described(device, "process"))
        return NVML_ERROR_INVALID_ARGUMENT;
    const struct section *gpu = is_described(device, "mig") ? described_parent(device) : device;
    if (value_of(gpu, "lost") != NULL)
        return NVML_ERROR_GPU_IS_LOST;
    return fault_in(device, call);
}

/* What the file does not say is not supported, as on a GPU that lacks it. */
nvmlReturn_t give_text(const struct section *one, const char *key, char *text, unsigned length)
{
    const char *value = value_of(one, key);
    if (value == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(value) + 1 > length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(text, value);
    return NVML_SUCCESS;
}

u64 number_of(const struct section *one, const char *key, u64 otherwise)
{
    const char *value = value_of(one, key);
    return value == NULL ? otherwise : strtoull(value, NULL, 0);
}

nvmlReturn_t give(const struct section *one, const char *key, unsigned *number)
{
    if (value_of(one, key) == NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    *number = (unsigned)number_of(one, key, 0);
    return NVML_SUCCESS;
}

API const char *nvmlErrorString(nvmlReturn_t code)
{
    for (unsigned number = 0; number < sizeof errors / sizeof *errors; number++)
        if (errors[number].code == code)
            return errors[number].name;
    return "Unknown Error";
}
