/* Lets the clock of user-mode-linux run slower than that of the machine, by the whole number in KERNEL_SLOWNESS.
 *
 * A system call costs user-mode-linux many times what it costs the machine. Programs in there with deadlines that suit a
 * real machine miss them; with a slow clock the emulated machine looks as fast as a real one. Waiting takes longer by the
 * same factor. user-mode-linux reads its time and sets its timer with these two functions only; this library is loaded
 * before libc.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CLOCKS = 2, SECOND = 1000000000 };

static int64_t slowness = 1;
static int64_t start[CLOCKS]; /* CLOCK_REALTIME is 0, CLOCK_MONOTONIC is 1 */

static int64_t nanoseconds(const struct timespec *time) { return time->tv_sec * SECOND + time->tv_nsec; }

static struct timespec timespec_of(int64_t time) {
    return (struct timespec){.tv_sec = time / SECOND, .tv_nsec = time % SECOND};
}

__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("KERNEL_SLOWNESS");
    if (given != NULL && atoi(given) > 1) {
        slowness = atoi(given);
    }
    for (clockid_t clock = 0; clock < CLOCKS; clock++) {
        struct timespec now;
        syscall(SYS_clock_gettime, clock, &now);
        start[clock] = nanoseconds(&now);
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock >= 0 && clock < CLOCKS) {
        *time = timespec_of(start[clock] + (nanoseconds(time) - start[clock]) / slowness);
    }
    return result;
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *wanted, struct itimerspec *old) {
    struct itimerspec slow = {
        .it_interval = timespec_of(nanoseconds(&wanted->it_interval) * slowness),
        .it_value = timespec_of(nanoseconds(&wanted->it_value) * slowness),
    };
    return (int)syscall(SYS_timer_settime, (long)timer, flags, &slow, old);
}
