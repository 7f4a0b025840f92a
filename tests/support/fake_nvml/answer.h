#ifndef FAKE_NVML_ANSWER_H
#define FAKE_NVML_ANSWER_H

#include "described.h"
#include "nvml.h"

#define API __attribute__((visibility("default")))

extern int users; /* of nvmlInit without nvmlShutdown */

nvmlReturn_t fault_in(const struct section *one, const char *call);
nvmlReturn_t enter(const char *call);
nvmlReturn_t enter_device(const char *call, nvmlDevice_t device);
nvmlReturn_t give_text(const struct section *one, const char *key, char *text, unsigned length);
nvmlReturn_t give(const struct section *one, const char *key, unsigned *number);
u64 number_of(const struct section *one, const char *key, u64 otherwise);

#define ENTER(call)                                                                                                    \
    nvmlReturn_t entered = enter(call);                                                                                \
    if (entered != NVML_SUCCESS)                                                                                       \
    return entered
#define ENTER_DEVICE(call)                                                                                             \
    nvmlReturn_t entered = enter_device(call, device);                                                                 \
    if (entered != NVML_SUCCESS)                                                                                       \
    return entered

#endif
