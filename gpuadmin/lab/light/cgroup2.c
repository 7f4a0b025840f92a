/* What slurmd and its steps see of /proc/PID/cgroup on a light host: the line of cgroup v2 alone.

   slurmd takes the first line for the whole, and ends ("Hybrid mode is not supported") where this machine's kernel has
   cgroup v1 beside v2. A light host uses v2 alone; what else the kernel has cannot be hidden by a namespace. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int only_version_two(int file) {
	char text[8192];
	ssize_t length = read(file, text, sizeof text - 1);
	if (length <= 0) return file;
	text[length] = 0;
	char *line = text[0] == '0' ? text : strstr(text, "\n0::");
	if (line == NULL) {
		lseek(file, 0, SEEK_SET);
		return file;
	}
	if (*line == '\n') line++;
	int copy = memfd_create("cgroup", MFD_CLOEXEC);
	if (copy < 0 || write(copy, line, strlen(line)) < 0) return file;
	lseek(copy, 0, SEEK_SET);
	close(file);
	return copy;
}

static int wanted(const char *path) {
	size_t length = strlen(path);
	return strncmp(path, "/proc/", 6) == 0 && length > 13 && strcmp(path + length - 7, "/cgroup") == 0;
}

#define OPEN(NAME)                                                                                                          \
	int NAME(const char *path, int flags, ...) {                                                                        \
		static int (*next)(const char *, int, ...);                                                                \
		if (next == NULL) next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #NAME);                         \
		va_list more;                                                                                              \
		va_start(more, flags);                                                                                     \
		int file = next(path, flags, va_arg(more, mode_t));                                                        \
		va_end(more);                                                                                              \
		return file >= 0 && wanted(path) ? only_version_two(file) : file;                                          \
	}
#define FOPEN(NAME)                                                                                                         \
	FILE *NAME(const char *path, const char *mode) {                                                                    \
		static FILE *(*next)(const char *, const char *);                                                          \
		if (next == NULL) next = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, #NAME);                 \
		if (!wanted(path)) return next(path, mode);                                                                \
		int file = open(path, O_RDONLY | O_CLOEXEC);                                                               \
		return file < 0 ? NULL : fdopen(file, mode);                                                               \
	}

OPEN(open)
OPEN(open64)
FOPEN(fopen)
FOPEN(fopen64)
