/* Loaded before libc, it shifts the time of day of one process by as many seconds as the
   file QG_WALL_CLOCK says at that moment; no other clock. A real step would need privileges
   and reach every process of the machine. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    static int file = -1;
    char text[32] = {0};
    if (file < 0 && getenv("QG_WALL_CLOCK")) file = open(getenv("QG_WALL_CLOCK"), O_RDONLY | O_CLOEXEC);
    if (file < 0 || pread(file, text, sizeof text - 1, 0) <= 0) return 0;
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += shift();
    return status;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}
