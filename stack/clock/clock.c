/*
 * Loaded into a server by LD_PRELOAD, this library adds an offset to the server's wall clock. The offset is a signed 64-bit number of
 * nanoseconds in the file that LASTITEM_CLOCK names; the file is mapped into memory, so a change of it takes effect at once.
 *
 * Only CLOCK_REALTIME moves. CLOCK_MONOTONIC does not, as with a real clock that is set: event loops and relative time-outs stay as they
 * are. The library allocates no memory and calls the kernel itself, since an allocator may read the clock before it can allocate
 * (Debian's redis-server with jemalloc: https://github.com/wolfcw/libfaketime/issues/130).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *offset; /* NULL until the file is mapped, and if there is no file */

__attribute__((constructor)) static void open_clock(void) {
  const char *path = getenv("LASTITEM_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) offset = mapped;
  close(file);
}

static void add(struct timespec *t, int64_t ns) {
  t->tv_sec += ns / SECOND;
  t->tv_nsec += ns % SECOND;
  if (t->tv_nsec < 0) t->tv_nsec += SECOND, t->tv_sec--;
  if (t->tv_nsec >= SECOND) t->tv_nsec -= SECOND, t->tv_sec++;
}

int clock_gettime(clockid_t id, struct timespec *t) {
  int failed = (int)syscall(SYS_clock_gettime, id, t);
  if (!failed && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) add(t, *offset);
  return failed;
}

int gettimeofday(struct timeval *restrict v, void *restrict zone) {
  struct timespec t;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
  v->tv_sec = t.tv_sec;
  v->tv_usec = t.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec t;
  if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
  if (out) *out = t.tv_sec;
  return t.tv_sec;
}

/*
 * A wait until an absolute time: the server has computed it from the moved clock, and the kernel compares it with its own. A time before
 * 2001 is one of CLOCK_MONOTONIC, for which a condition variable may have been made.
 */
int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict until) {
  struct timespec t = *until;
  if (t.tv_sec < SECOND) return pthread_cond_clockwait(c, m, CLOCK_MONOTONIC, &t);
  if (offset) add(&t, -*offset);
  return pthread_cond_clockwait(c, m, CLOCK_REALTIME, &t);
}
