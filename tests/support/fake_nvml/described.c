/* The file that describes GPUs (README.md): read whole, again whenever it has changed, as GPUs change under a program. */
#include "described.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct section sections[MOST_SECTIONS];
static int count;
static struct timespec changed;
static off_t size;
static ino_t inode;
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = 0;
    return text;
}

/* A section's place in the array is what a handle points to: it stays while the file keeps its order. */
static struct section *begin(const char *kind)
{
    if (count == MOST_SECTIONS)
        return NULL;
    struct section *one = &sections[count];
    memset(one, 0, sizeof *one);
    snprintf(one->kind, sizeof one->kind, "%s", kind);
    one->parent = 0;
    for (int before = count - 1; before > 0; before--) {
        int fits = strcmp(kind, "mig") == 0 ? strcmp(sections[before].kind, "gpu") == 0
                                            : strcmp(sections[before].kind, "process") != 0;
        if (strcmp(kind, "gpu") != 0 && fits) {
            one->parent = before;
            break;
        }
    }
    count++;
    return one;
}

static int read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    count = 0;
    struct section *one = begin("system");
    char line[512];
    while (one != NULL && fgets(line, sizeof line, file) != NULL) {
        char *text = trimmed(line);
        if (*text == 0 || *text == '#')
            continue;
        if (*text == '[') {
            text[strcspn(text, "]")] = 0;
            one = begin(text + 1);
            continue;
        }
        char *value = strchr(text, '=');
        if (value == NULL || one->lines == MOST_LINES)
            continue;
        *value++ = 0;
        struct line *next = &one->line[one->lines++];
        snprintf(next->key, sizeof next->key, "%s", trimmed(text));
        snprintf(next->value, sizeof next->value, "%s", trimmed(value));
    }
    fclose(file);
    return 1;
}

int describe(void)
{
    const char *path = getenv("GPUADMIN_FAKE_NVML");
    struct stat facts;
    path = path != NULL ? path : "/etc/gpuadmin-fake-nvml";
    if (stat(path, &facts) != 0)
        return 0;
    pthread_mutex_lock(&reading);
    int good = 1;
    if (facts.st_mtim.tv_sec != changed.tv_sec || facts.st_mtim.tv_nsec != changed.tv_nsec || facts.st_size != size ||
        facts.st_ino != inode) {
        good = read_file(path);
        changed = facts.st_mtim;
        size = facts.st_size;
        inode = facts.st_ino;
    }
    pthread_mutex_unlock(&reading);
    return good;
}

struct section *described_system(void)
{
    return &sections[0];
}

struct section *described(const char *kind, const struct section *parent, unsigned index)
{
    for (int number = 1; number < count; number++) {
        struct section *one = &sections[number];
        if (strcmp(one->kind, kind) == 0 && (parent == NULL || &sections[one->parent] == parent) && index-- == 0)
            return one;
    }
    return NULL;
}

struct section *described_parent(const struct section *one)
{
    return &sections[one->parent];
}

int is_described(const struct section *one, const char *kind)
{
    return one > sections && one < sections + count && (kind == NULL || strcmp(one->kind, kind) == 0);
}

const char *value_of(const struct section *one, const char *key)
{
    for (int number = 0; number < one->lines; number++)
        if (strcmp(one->line[number].key, key) == 0)
            return one->line[number].value;
    return NULL;
}
