/* Preloaded into a program under test: what the kernel says of the clock and of disks, as the test
 * wants it. HOST_LIES_CLOCK is "set" or "free"; HOST_LIES_DISK is "full" or "read-only". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/timex.h>

static int is(const char *variable, const char *value) {
    const char *set = getenv(variable);
    return set != NULL && strcmp(set, value) == 0;
}

int adjtimex(struct timex *to) {
    memset(to, 0, sizeof *to);
    if (is("HOST_LIES_CLOCK", "free")) {
        to->status = STA_UNSYNC;
        return TIME_ERROR;
    }
    return TIME_OK;
}

int statvfs(const char *path, struct statvfs *to) {
    int (*real)(const char *, struct statvfs *) = dlsym(RTLD_NEXT, "statvfs");
    int outcome = real(path, to);
    if (is("HOST_LIES_DISK", "full"))
        to->f_bavail = 1;
    if (is("HOST_LIES_DISK", "read-only"))
        to->f_flag |= ST_RDONLY;
    return outcome;
}
