/* What a process really does to some files, seen from under its C library (LD_PRELOAD). It knows nothing of this project.

   REC_FILES  the files' absolute paths, with a colon between two       REC_LOG   where events are appended
   REC_KILL   n: SIGKILL at the n-th event; a longer write is half done then
   REC_FAIL   n: the n-th sync fails with EIO
   REC_PLAIN  fstatfs names xfs, so that a program which trusts only ext4 and tmpfs does not write through maps

   An event is a byte of kind, a byte with the file's place in REC_FILES, u64 offset, u64 length, and so many bytes.
   W pwrite    M write through a map, which shows at the next event, when the file differs from a copy that is kept
   G size after growing    C size after a cut    S sync    F failed sync    K mark of the program (rec_mark)
   An event is in the system's cache at once, so a kill loses none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FILES 16
#define BLOCK 4096

struct target {
    char *path;
    int fd;               /* a descriptor of our own, to read by */
    ino_t inode;
    unsigned char *copy;
    size_t size;          /* of the copy */
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct target targets[FILES];
static int count, started, logfd = -1;
static long events, syncs, kill_at, fail_at;

static void start(void) {
    if (started) return;
    started = 1;
    const char *files = getenv("REC_FILES"), *log = getenv("REC_LOG"), *n;
    if (!files || !log) return;
    for (char *path = strtok(strdup(files), ":"); path && count < FILES; path = strtok(NULL, ":"))
        targets[count++] = (struct target){.path = path, .fd = -1};
    logfd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    kill_at = (n = getenv("REC_KILL")) ? atol(n) : 0;
    fail_at = (n = getenv("REC_FAIL")) ? atol(n) : 0;
}

static void out(char kind, int file, uint64_t offset, const void *data, uint64_t n) {
    unsigned char head[18] = {kind, file};
    memcpy(head + 2, &offset, 8);
    memcpy(head + 10, &n, 8);
    struct iovec parts[2] = {{head, sizeof head}, {(void *)data, n}};
    syscall(SYS_writev, logfd, parts, 2);
}

static int file_of(int fd) {
    struct stat a, b;
    start();
    if (logfd < 0 || fd < 0 || fd == logfd || fstat(fd, &a) || !S_ISREG(a.st_mode)) return -1;
    for (int i = 0; i < count; i++)
        if (fd != targets[i].fd && !stat(targets[i].path, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev) return i;
    return -1;
}

static void resize(struct target *t, size_t n) {
    if (n > t->size) {
        t->copy = realloc(t->copy, n + 1);
        memset(t->copy + t->size, 0, n - t->size);
    }
    t->size = n;
}

/* Note what came into a file through maps since the last event; where the file is new to us, only copy it. */
static void look(int file) {
    static unsigned char piece[1 << 16];
    struct target *t = targets + file;
    struct stat s;
    if (stat(t->path, &s)) return;
    int first = t->fd < 0 || s.st_ino != t->inode;
    if (first) {
        if (t->fd >= 0) syscall(SYS_close, t->fd);
        t->fd = syscall(SYS_openat, AT_FDCWD, t->path, O_RDONLY | O_CLOEXEC, 0);
        t->inode = s.st_ino;
        resize(t, s.st_size);
    } else if ((size_t)s.st_size != t->size) {
        out(s.st_size > (off_t)t->size ? 'G' : 'C', file, s.st_size, "", 0);
        resize(t, s.st_size);
    }
    for (size_t at = 0; at < t->size; at += sizeof piece) {
        ssize_t n = syscall(SYS_pread64, t->fd, piece, sizeof piece, at);
        if (n <= 0) break;
        if (!memcmp(piece, t->copy + at, n)) continue;
        for (ssize_t i = 0; i < n; i += BLOCK) {
            ssize_t m = n - i < BLOCK ? n - i : BLOCK;
            if (!memcmp(piece + i, t->copy + at + i, m)) continue;
            if (!first) out('M', file, at + i, piece + i, m);
            memcpy(t->copy + at + i, piece + i, m);
        }
    }
}

static void look_at_all(void) {
    for (int i = 0; i < count; i++) look(i);
}

static void die(void) {
    look_at_all();
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* For the program itself: begin anew by the environment, as a forked child does; leave a mark; fail the n-th sync from
   now on. */
void rec_reset(void) {
    started = count = 0;
    events = syncs = 0;
    logfd = -1;
    memset(targets, 0, sizeof targets);
    start();
    look_at_all();
}
void rec_mark(const char *text, long n) {
    pthread_mutex_lock(&lock);
    look_at_all();
    out('K', 0, 0, text, n);
    pthread_mutex_unlock(&lock);
}

static ssize_t written(int fd, const void *data, size_t n, off_t offset) {
    int file = file_of(fd);
    if (file < 0) return syscall(SYS_pwrite64, fd, data, n, offset);
    pthread_mutex_lock(&lock);
    look(file);
    int dies = ++events == kill_at;
    size_t some = !dies ? n : n > BLOCK ? n / 2 & ~(size_t)511 : 0;
    ssize_t done = some ? syscall(SYS_pwrite64, fd, data, some, offset) : 0;
    if (done > 0) {
        struct target *t = targets + file;
        out('W', file, offset, data, done);
        if (offset + (size_t)done > t->size) resize(t, offset + done);
        memcpy(t->copy + offset, data, done);
    }
    if (dies) die();
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

static int synced(int fd, long call) {
    int file = file_of(fd);
    if (file < 0) return syscall(call, fd);
    pthread_mutex_lock(&lock);
    look(file);
    if (++events == kill_at) die();
    int fails = ++syncs == fail_at;
    out(fails ? 'F' : 'S', file, 0, "", 0);
    pthread_mutex_unlock(&lock);
    if (fails) errno = EIO;
    return fails ? -1 : 0;
}

static int cut(int fd, off_t size) {
    int file = file_of(fd);
    if (file < 0) return syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&lock);
    look(file);
    if (++events == kill_at) die();
    int done = syscall(SYS_ftruncate, fd, size);
    look(file);
    pthread_mutex_unlock(&lock);
    return done;
}

static int grown(int fd, off_t offset, off_t n) {
    int (*real)(int, off_t, off_t) = dlsym(RTLD_NEXT, "posix_fallocate64");
    int file = file_of(fd);
    if (file < 0) return real(fd, offset, n);
    pthread_mutex_lock(&lock);
    look(file);
    if (++events == kill_at) die();
    int error = real(fd, offset, n);
    look(file);
    pthread_mutex_unlock(&lock);
    return error;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t offset) { return written(fd, data, n, offset); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t offset) { return written(fd, data, n, offset); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }
int fsync(int fd) { return synced(fd, SYS_fsync); }
int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off64_t size) { return cut(fd, size); }
int posix_fallocate(int fd, off_t offset, off_t n) { return grown(fd, offset, n); }
int posix_fallocate64(int fd, off64_t offset, off64_t n) { return grown(fd, offset, n); }
int fstatfs(int fd, struct statfs *about) {
    int failed = syscall(SYS_fstatfs, fd, about);
    if (!failed && getenv("REC_PLAIN")) about->f_type = 0x58465342;
    return failed;
}
