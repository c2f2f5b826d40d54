/* Syncs that take so long as SYNC_MICROSECONDS says, and do nothing else (LD_PRELOAD). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static struct timespec pause_;

__attribute__((constructor)) static void start(void) {
    const char *said = getenv("SYNC_MICROSECONDS");
    long micros = said ? atol(said) : 0;
    pause_ = (struct timespec){micros / 1000000, micros % 1000000 * 1000};
}

static int wait_(void) {
    prctl(PR_SET_TIMERSLACK, 1000); /* of this thread; by default it wakes 50 microseconds late */
    nanosleep(&pause_, NULL);
    return 0;
}

int fsync(int fd) { return (void)fd, wait_(); }
int fdatasync(int fd) { return (void)fd, wait_(); }
int msync(void *at, size_t count, int flags) { return (void)at, (void)count, flags & MS_SYNC ? wait_() : 0; }
