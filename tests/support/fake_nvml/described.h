#ifndef FAKE_NVML_DESCRIBED_H
#define FAKE_NVML_DESCRIBED_H

enum { MOST_SECTIONS = 512, MOST_LINES = 64 };

struct line {
    char key[64], value[192];
};

/* The system, a gpu, a mig of it, or a process of the gpu or mig before it. */
struct section {
    char kind[16];
    int parent; /* its place in the array; 0: the system */
    int lines;
    struct line line[MOST_LINES];
};

/* Read the file if it has changed. 0: there is none. */
int describe(void);
struct section *described_system(void);
/* The section of a kind and parent (NULL: any) with this index from 0, or NULL. */
struct section *described(const char *kind, const struct section *parent, unsigned index);
struct section *described_parent(const struct section *one);
int is_described(const struct section *one, const char *kind);
/* The value of a key, or NULL. */
const char *value_of(const struct section *one, const char *key);

#endif
