/* GPM: how busy a GPU instance was between two samples of it. `gpm = 1` of a GPU: it has GPM; of a MIG device: per cent. */
#include <stdlib.h>

#include "answer.h"

struct sample {
    nvmlDevice_t device; /* NULL: nothing was sampled yet */
    unsigned instance;
};

API nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    ENTER_DEVICE("nvmlGpmQueryDeviceSupport");
    if (support->version != 1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    support->isSupportedDevice = (unsigned)number_of(device, "gpm", 0);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    ENTER("nvmlGpmSampleAlloc");
    *sample = calloc(1, sizeof **sample);
    return *sample == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    ENTER("nvmlGpmSampleFree");
    free(sample);
    return NVML_SUCCESS;
}

static struct section *instance_of(nvmlDevice_t device, unsigned instance)
{
    struct section *one;
    for (unsigned index = 0; (one = described("mig", device, index)) != NULL; index++)
        if (number_of(one, "gpu_instance", 0) == instance)
            return one;
    return NULL;
}

API nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned instance, nvmlGpmSample_t sample)
{
    ENTER_DEVICE("nvmlGpmMigSampleGet");
    if (number_of(device, "gpm", 0) == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (instance_of(device, instance) == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    sample->device = device;
    sample->instance = instance;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *asked)
{
    ENTER("nvmlGpmMetricsGet");
    if (asked->version != 1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (asked->sample1->device == NULL || asked->sample1->device != asked->sample2->device ||
        asked->sample1->instance != asked->sample2->instance)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct section *mig = instance_of(asked->sample2->device, asked->sample2->instance);
    for (unsigned number = 0; number < asked->numMetrics; number++) {
        nvmlGpmMetric_t *metric = &asked->metrics[number];
        const char *value = mig == NULL ? NULL : value_of(mig, "gpm");
        metric->nvmlReturn = value != NULL && metric->metricId == NVML_GPM_METRIC_GRAPHICS_UTIL
                                 ? NVML_SUCCESS
                                 : NVML_ERROR_NOT_SUPPORTED;
        metric->value = value == NULL ? 0 : strtod(value, NULL);
    }
    return NVML_SUCCESS;
}
