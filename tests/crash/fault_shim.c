/* fault_shim.c: a library that is preloaded into tarryd. It injects a fault at the n-th call of a kind: the call fails,
 * transfers only a part, or is the last call of the process.
 *
 * Environment variables:
 *   TARRY_FAULT        WHAT[+WHAT…]:HOW
 *                      WHAT: scope.call, each of them a name below or "any"
 *                      HOW:  one of the following
 *     an errno's name    the call fails with this errno
 *     short              the call transfers half of a read or write
 *     kill               SIGKILL before the call
 *     half               half of a write, then SIGKILL
 *     done               the call, then SIGKILL
 *     cut                a power cut before the call: unsynced writes are lost (power_cut.h)
 *     done-cut           a power cut after the call: data sent to a peer has arrived
 *     hold               the call waits, as on a disk that hangs, until its number is no longer between `first` and
 *                        `last`. While a pread of the same scope may wait, preadv2 reports that nothing of the file is
 *                        in memory.
 *   TARRY_FAULT_DATA   the data directory, with the name that tarryd gets
 *   TARRY_FAULT_PAGE   a file with room for struct fault_page, shared with fault.py, which sets `first` and `last`
 *   TARRY_FAULT_SPARE  part of a library's name: its allocations, and the threads that it makes, never fail
 *
 * The library counts every call, also without TARRY_FAULT, so that a test knows how many calls there are. The shared
 * file keeps the counts after the process has ended. The library sees only calls from outside libc, not calls that libc
 * itself makes (fopen, getaddrinfo). It allocates no memory, and injects no fault before its constructor has run. */
#undef _FILE_OFFSET_BITS /* meson defines _FILE_OFFSET_BITS; with it these functions would have the same names as      \
                            those of ALSO_64 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "power_cut.h"

#define EXPORT __attribute__((visibility("default")))
#define DESCRIPTORS_MAX 65536
#define TERMS_MAX 24
#define NAME_SIZE 24
#define SPARED_MAX 8
#define HIT_SIZE 512
#define CALLERS_MAX 12

#define SCOPES(X) X(other) X(log) X(index) X(archive) X(data) X(net) X(heap) X(process)
/* clang-format off */
#define CALLS(X)                                                                                                       \
    X(open) X(opendir) X(mkdir) X(read) X(pread) X(write) X(pwrite) X(writev) X(fdatasync) X(fsync) X(ftruncate)       \
    X(posix_fallocate) X(rename) X(unlink) X(statvfs) X(fcntl) X(mmap) X(socket) X(bind) X(listen) X(accept4)          \
    X(epoll_create1) X(epoll_ctl) X(epoll_wait) X(eventfd) X(pipe) X(send) X(sendmsg) X(recv) X(poll) X(pthread_create)             \
    X(malloc) X(calloc) X(realloc) X(posix_memalign) X(aligned_alloc) X(strdup)
/* clang-format on */

#define SCOPE_ENUM(name) SCOPE_##name,
#define CALL_ENUM(name) CALL_##name,
#define NAME_TEXT(name) #name,
enum scope { SCOPES(SCOPE_ENUM) SCOPE_COUNT };
enum call { CALLS(CALL_ENUM) CALL_COUNT };
static const char scope_names[][NAME_SIZE] = {SCOPES(NAME_TEXT)};
static const char call_names[][NAME_SIZE] = {CALLS(NAME_TEXT)};

/* Shared with fault.py, which reads these fields by their offsets. */
struct fault_page {
    _Atomic uint64_t first; /* first of the matching calls that are hit */
    _Atomic uint64_t
        last; /* number of the last matching call that gets the fault, counted from 1; `first` = 0: no call gets it */
    _Atomic uint64_t matched;
    _Atomic uint64_t fired;
    char hit[HIT_SIZE]; /* the last call that got the fault: scope.call, thread, and the callers (object+offset,
                           innermost first) */
    uint64_t scope_count;
    uint64_t call_count;
    char scope_names[SCOPE_COUNT][NAME_SIZE];
    char call_names[CALL_COUNT][NAME_SIZE];
    _Atomic uint64_t counts[SCOPE_COUNT][CALL_COUNT];
};

enum how { HOW_PASS, HOW_FAIL, HOW_SHORT, HOW_KILL, HOW_HALF, HOW_DONE, HOW_CUT, HOW_DONE_CUT, HOW_HOLD };

static const struct {
    const char *name;
    int number;
} errors[] = {{"EIO", EIO},         {"ENOSPC", ENOSPC}, {"EINTR", EINTR},   {"EMFILE", EMFILE},
              {"ENFILE", ENFILE},   {"ENOMEM", ENOMEM}, {"EAGAIN", EAGAIN}, {"ECONNRESET", ECONNRESET},
              {"EACCES", EACCES},   {"EROFS", EROFS},   {"EDQUOT", EDQUOT}, {"ENOLCK", ENOLCK},
              {"ENOBUFS", ENOBUFS}, {"EPERM", EPERM}};

static struct {
    bool matches[SCOPE_COUNT][CALL_COUNT];
    enum how how;
    int error;
} rule;

/* True while a spared library makes a thread. The C library's allocations for the thread do not fail either. */
static _Thread_local bool is_sparing __attribute__((tls_model("initial-exec")));
static struct fault_page *page; /* the page shared with fault.py; NULL: not mapped yet, or the test uses none */
static char data_path[1024];
static size_t data_size;
static _Atomic unsigned char scope_of[DESCRIPTORS_MAX];
static struct { uintptr_t from, to; } spared[SPARED_MAX];
static size_t spared_count;

/* ---- the fault */

static _Noreturn void die(void) {
    for (;;) kill(getpid(), SIGKILL);
}

/* Records the hit. backtrace (after its first call) and dladdr do not allocate. */
static void tell_hit(enum scope scope, enum call call) {
    void *callers[CALLERS_MAX];
    char thread[16] = ""; /* Linux's maximal length of a thread name */
    int count = backtrace(callers, CALLERS_MAX);
    prctl(PR_GET_NAME, thread);
    size_t used = (size_t)snprintf(page->hit, HIT_SIZE, "%s.%s in %s by", scope_names[scope], call_names[call], thread);
    for (int i = 2; i < count && used < HIT_SIZE; i++) {
        Dl_info info;
        if (dladdr(callers[i], &info) == 0 || info.dli_fname == NULL) continue;
        const char *slash = strrchr(info.dli_fname, '/');
        used += (size_t)snprintf(page->hit + used, HIT_SIZE - used, " %s+0x%zx", slash ? slash + 1 : info.dli_fname,
                                 (size_t)((char *)callers[i] - (char *)info.dli_fbase));
    }
}

static bool is_hit(uint64_t number) {
    uint64_t first = atomic_load(&page->first);
    return first != 0 && number >= first && number <= atomic_load(&page->last);
}

static void hold(uint64_t number) {
    const struct timespec pause = {.tv_nsec = 500 * 1000};
    while (is_hit(number)) nanosleep(&pause, NULL);
}

static enum how meet(enum scope scope, enum call call) {
    if (page == NULL) return HOW_PASS;
    atomic_fetch_add(&page->counts[scope][call], 1);
    if (!rule.matches[scope][call]) return HOW_PASS;
    uint64_t number = atomic_fetch_add(&page->matched, 1) + 1;
    if (!is_hit(number)) return HOW_PASS;
    atomic_fetch_add(&page->fired, 1);
    tell_hit(scope, call);
    if (rule.how == HOW_HOLD) hold(number);
    if (rule.how == HOW_CUT) power_cut(number);
    if (rule.how == HOW_KILL || rule.how == HOW_CUT) die();
    return rule.how;
}

static enum scope scope_of_path(const char *path) {
    if (data_size == 0 || strncmp(path, data_path, data_size) != 0) return SCOPE_other;
    const char *rest = path + data_size;
    if (*rest != '\0' && *rest != '/') return SCOPE_other;
    if (strncmp(rest, "/log", 4) == 0) return SCOPE_log;
    if (strncmp(rest, "/archive/", 9) == 0 || strcmp(rest, "/archive") == 0) return SCOPE_archive;
    if (strncmp(rest, "/index/keyring", 14) == 0)
        return SCOPE_data; /* LMDB's directory also has the keyring, but the broker itself writes the keyring */
    return strncmp(rest, "/index", 6) == 0 ? SCOPE_index : SCOPE_data;
}

static enum scope scope_of_descriptor(int descriptor) {
    if (descriptor < 0 || descriptor >= DESCRIPTORS_MAX) return SCOPE_other;
    return atomic_load(&scope_of[descriptor]);
}

static int note(int descriptor, enum scope scope) {
    if (descriptor >= 0 && descriptor < DESCRIPTORS_MAX) atomic_store(&scope_of[descriptor], scope);
    return descriptor;
}

static bool is_spared(const void *caller) {
    for (size_t i = 0; i < spared_count; i++)
        if ((uintptr_t)caller >= spared[i].from && (uintptr_t)caller < spared[i].to) return true;
    return false;
}

/* ---- start */

static int find_name(const char names[][NAME_SIZE], int count, const char *text, size_t size) {
    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == size && strncmp(names[i], text, size) == 0) return i;
    if (size == 3 && strncmp(text, "any", 3) == 0) return -1;
    fprintf(stderr, "fault_shim: TARRY_FAULT has an unknown name at \"%s\"\n", text);
    _exit(99);
}

static void take_term(const char *term, size_t size) {
    size_t dot = 0;
    while (dot < size && term[dot] != '.') dot++;
    int scope = find_name(scope_names, SCOPE_COUNT, term, dot);
    int call = find_name(call_names, CALL_COUNT, term + dot + 1, size > dot ? size - dot - 1 : 0);
    for (int i = 0; i < SCOPE_COUNT; i++)
        for (int k = 0; k < CALL_COUNT; k++)
            if ((scope < 0 || scope == i) && (call < 0 || call == k)) rule.matches[i][k] = true;
}

static void take_how(const char *text) {
    static const char *const words[] = {
        [HOW_SHORT] = "short", [HOW_KILL] = "kill",         [HOW_HALF] = "half", [HOW_DONE] = "done",
        [HOW_CUT] = "cut",     [HOW_DONE_CUT] = "done-cut", [HOW_HOLD] = "hold"};
    for (enum how how = HOW_SHORT; how <= HOW_HOLD; how++)
        if (strcmp(text, words[how]) == 0) rule.how = how;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (strcmp(text, errors[i].name) != 0) continue;
        rule.how = HOW_FAIL;
        rule.error = errors[i].number;
    }
    if (rule.how != HOW_PASS) return;
    fprintf(stderr, "fault_shim: TARRY_FAULT ends in an unknown \"%s\"\n", text);
    _exit(99);
}

static void take_rule(const char *text) {
    while (*text != ':') {
        size_t size = strcspn(text, "+:");
        take_term(text, size);
        text += size;
        if (*text == '+') text++;
    }
    take_how(text + 1);
}

static int spare(struct dl_phdr_info *info, size_t size, void *name) {
    if (strstr(info->dlpi_name, name) == NULL) return 0;
    for (int i = 0; i < info->dlpi_phnum && spared_count < SPARED_MAX; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        spared[spared_count].from = info->dlpi_addr + part->p_vaddr;
        spared[spared_count++].to = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TARRY_FAULT_PAGE"), *data = getenv("TARRY_FAULT_DATA"), *text = getenv("TARRY_FAULT");
    char *library = getenv("TARRY_FAULT_SPARE");
    if (path == NULL || data == NULL) return;
    data_size = strlen(data);
    if (data_size >= sizeof(data_path)) _exit(99);
    memcpy(data_path, data, data_size + 1);
    if (text != NULL) take_rule(text);
    if (library != NULL) dl_iterate_phdr(spare, library);
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *bytes = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) {
        perror("fault_shim: TARRY_FAULT_PAGE");
        _exit(99);
    }
    close(file);
    void *warm[1];
    (void)backtrace(warm, 1);
    struct fault_page *mapped = bytes;
    mapped->scope_count = SCOPE_COUNT;
    mapped->call_count = CALL_COUNT;
    memcpy(mapped->scope_names, scope_names, sizeof(scope_names));
    memcpy(mapped->call_names, call_names, sizeof(call_names));
    page = mapped;
}

/* ---- the intercepted calls */

/* Sets `real` to the function that would have been called without the shim. */
#define REAL(name)                                                                                                     \
    static __typeof__(&(name)) real;                                                                                   \
    if (real == NULL) real = (__typeof__(&(name)))dlsym(RTLD_NEXT, #name)
#define MEET(scope, name, failure)                                                                                     \
    REAL(name);                                                                                                        \
    enum how how = meet(scope, CALL_##name);                                                                           \
    if (how == HOW_FAIL) return errno = rule.error, (failure)
/* Last statement of a replaced function, after the real call: does the faults that come after the call, then returns
 * the result. */
#define DONE(result)                                                                                                   \
    do {                                                                                                               \
        if (how == HOW_DONE_CUT) power_cut(atomic_load(&page->first));                                                 \
        if (how == HOW_DONE || how == HOW_HALF || how == HOW_DONE_CUT) die();                                          \
        return result;                                                                                                 \
    } while (0)

/* Defines the same function for callers compiled with 64-bit offsets, which use another name. off_t has 64 bits anyway.
 */
#define ALSO_64(name) __asm__(".globl " #name "64\n\t.set " #name "64, " #name)
ALSO_64(open);
ALSO_64(pread);
ALSO_64(pwrite);
ALSO_64(ftruncate);
ALSO_64(posix_fallocate);
ALSO_64(statvfs);
ALSO_64(fcntl);
ALSO_64(mmap);
__asm__(".globl preadv64v2\n\t.set preadv64v2, preadv2");

/* Returns how many bytes of a transfer are executed. */
static size_t part(enum how how, size_t size) {
    return (how == HOW_SHORT || how == HOW_HALF) && size > 1 ? size / 2 : size;
}

/* Returns whether the simulated power cut records the writes to this file, to undo them. */
static bool is_followed(int descriptor) {
    enum scope scope = scope_of_descriptor(descriptor);
    return (rule.how == HOW_CUT || rule.how == HOW_DONE_CUT) &&
           (scope == SCOPE_log || scope == SCOPE_index || scope == SCOPE_archive || scope == SCOPE_data);
}

static void begin_write(int descriptor, off_t offset, size_t size) {
    if (!is_followed(descriptor)) return;
    power_lock();
    power_note_write(descriptor, offset, size);
}

static void end_write(int descriptor) {
    if (is_followed(descriptor)) power_unlock();
}

/* Calls fdatasync or fsync and notes it for the power cut, in one step. */
static int sync_noted(int (*sync)(int), int descriptor) {
    if (!is_followed(descriptor)) return sync(descriptor);
    power_lock();
    int result = sync(descriptor);
    if (result == 0) power_note_sync(descriptor);
    power_unlock();
    return result;
}

EXPORT int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    enum scope scope = scope_of_path(path);
    MEET(scope, open, -1);
    int descriptor = note(real(path, flags, mode), scope);
    DONE(descriptor);
}

EXPORT int close(int descriptor) {
    REAL(close);
    note(descriptor, SCOPE_other);
    return real(descriptor);
}

EXPORT DIR *opendir(const char *path) {
    MEET(scope_of_path(path), opendir, NULL);
    DIR *directory = real(path);
    DONE(directory);
}

EXPORT int mkdir(const char *path, mode_t mode) {
    MEET(scope_of_path(path), mkdir, -1);
    int result = real(path, mode);
    DONE(result);
}

EXPORT ssize_t read(int descriptor, void *out, size_t size) {
    MEET(scope_of_descriptor(descriptor), read, -1);
    ssize_t count = real(descriptor, out, part(how, size));
    DONE(count);
}

EXPORT ssize_t pread(int descriptor, void *out, size_t size, off_t offset) {
    MEET(scope_of_descriptor(descriptor), pread, -1);
    ssize_t count = real(descriptor, out, part(how, size), offset);
    DONE(count);
}

EXPORT ssize_t preadv2(int descriptor, const struct iovec *parts, int count, off_t offset, int flags) {
    REAL(preadv2);
    bool is_held = page != NULL && rule.how == HOW_HOLD && atomic_load(&page->first) != 0 &&
                   rule.matches[scope_of_descriptor(descriptor)][CALL_pread];
    if (!is_held || !(flags & RWF_NOWAIT)) return real(descriptor, parts, count, offset, flags);
    errno = EAGAIN;
    return -1;
}

EXPORT ssize_t write(int descriptor, const void *data, size_t size) {
    MEET(scope_of_descriptor(descriptor), write, -1);
    begin_write(descriptor, -1, size);
    ssize_t count = real(descriptor, data, part(how, size));
    end_write(descriptor);
    DONE(count);
}

EXPORT ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) {
    MEET(scope_of_descriptor(descriptor), pwrite, -1);
    begin_write(descriptor, offset, size);
    ssize_t count = real(descriptor, data, part(how, size), offset);
    end_write(descriptor);
    DONE(count);
}

EXPORT ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    MEET(scope_of_descriptor(descriptor), writev, -1);
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    begin_write(descriptor, -1, size);
    ssize_t written = real(descriptor, parts, (int)part(how, (size_t)count));
    end_write(descriptor);
    DONE(written);
}

EXPORT int fdatasync(int descriptor) {
    MEET(scope_of_descriptor(descriptor), fdatasync, -1);
    int result = sync_noted(real, descriptor);
    DONE(result);
}

EXPORT int fsync(int descriptor) {
    MEET(scope_of_descriptor(descriptor), fsync, -1);
    int result = sync_noted(real, descriptor);
    DONE(result);
}

EXPORT int ftruncate(int descriptor, off_t size) {
    MEET(scope_of_descriptor(descriptor), ftruncate, -1);
    int result = real(descriptor, size);
    DONE(result);
}

EXPORT int posix_fallocate(int descriptor, off_t offset, off_t size) {
    MEET(scope_of_descriptor(descriptor), posix_fallocate, rule.error);
    int error = real(descriptor, offset, size);
    DONE(error);
}

EXPORT int rename(const char *from, const char *to) {
    MEET(scope_of_path(from), rename, -1);
    int result = real(from, to);
    DONE(result);
}

EXPORT int unlink(const char *path) {
    MEET(scope_of_path(path), unlink, -1);
    int result = real(path);
    DONE(result);
}

EXPORT int statvfs(const char *path, struct statvfs *out) {
    MEET(scope_of_path(path), statvfs, -1);
    return real(path, out);
}

EXPORT int fcntl(int descriptor, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument =
        va_arg(arguments,
               void *); /* reading a pointer is right for an int too, because both are passed in the same register */
    va_end(arguments);
    MEET(scope_of_descriptor(descriptor), fcntl, -1);
    return real(descriptor, command, argument);
}

EXPORT void *mmap(void *at, size_t size, int protection, int flags, int descriptor, off_t offset) {
    MEET(flags & MAP_ANONYMOUS ? SCOPE_heap : scope_of_descriptor(descriptor), mmap, MAP_FAILED);
    return real(at, size, protection, flags, descriptor, offset);
}

EXPORT int socket(int domain, int type, int protocol) {
    MEET(SCOPE_net, socket, -1);
    return note(real(domain, type, protocol), SCOPE_net);
}

EXPORT int bind(int descriptor, const struct sockaddr *address, socklen_t size) {
    MEET(SCOPE_net, bind, -1);
    return real(descriptor, address, size);
}

EXPORT int listen(int descriptor, int backlog) {
    MEET(SCOPE_net, listen, -1);
    return real(descriptor, backlog);
}

EXPORT int accept4(int descriptor, struct sockaddr *out, socklen_t *out_size, int flags) {
    MEET(SCOPE_net, accept4, -1);
    return note(real(descriptor, out, out_size, flags), SCOPE_net);
}

EXPORT int epoll_create1(int flags) {
    MEET(SCOPE_net, epoll_create1, -1);
    return note(real(flags), SCOPE_net);
}

EXPORT int epoll_ctl(int poll, int command, int descriptor, struct epoll_event *event) {
    MEET(SCOPE_net, epoll_ctl, -1);
    return real(poll, command, descriptor, event);
}

EXPORT int epoll_wait(int poll, struct epoll_event *events, int count, int wait_ms) {
    MEET(SCOPE_net, epoll_wait, -1);
    return real(poll, events, count, wait_ms);
}

EXPORT int eventfd(unsigned initial, int flags) {
    MEET(SCOPE_net, eventfd, -1);
    return note(real(initial, flags), SCOPE_net);
}

EXPORT int pipe(int ends[2]) {
    MEET(SCOPE_net, pipe, -1);
    int result = real(ends);
    if (result == 0) note(ends[0], SCOPE_net), note(ends[1], SCOPE_net);
    return result;
}

EXPORT ssize_t send(int descriptor, const void *data, size_t size, int flags) {
    MEET(SCOPE_net, send, -1);
    ssize_t sent = real(descriptor, data, part(how, size), flags);
    DONE(sent);
}

/* The door sends with this call. A short transfer sends a part of the first buffer. */
EXPORT ssize_t sendmsg(int descriptor, const struct msghdr *header, int flags) {
    MEET(SCOPE_net, sendmsg, -1);
    struct iovec first = header->msg_iovlen > 0 ? header->msg_iov[0] : (struct iovec){0};
    struct msghdr some = *header;
    if (part(how, first.iov_len) < first.iov_len) {
        first.iov_len = part(how, first.iov_len);
        some.msg_iov = &first;
        some.msg_iovlen = 1;
    }
    ssize_t sent = real(descriptor, &some, flags);
    DONE(sent);
}

EXPORT ssize_t recv(int descriptor, void *data, size_t size, int flags) {
    MEET(SCOPE_net, recv, -1);
    return real(descriptor, data, part(how, size), flags);
}

EXPORT int poll(struct pollfd *descriptors, nfds_t count, int wait_ms) {
    MEET(SCOPE_net, poll, -1);
    return real(descriptors, count, wait_ms);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    REAL(pthread_create);
    is_sparing = is_spared(__builtin_return_address(0));
    if (!is_sparing && meet(SCOPE_process, CALL_pthread_create) == HOW_FAIL) return rule.error;
    int error = real(thread, attributes, run, argument);
    is_sparing = false;
    return error;
}

/* ---- memory: defines glibc's own names, because a look-up would allocate */

void *__libc_malloc(size_t size);                     // NOLINT: reserved, and glibc's
void *__libc_calloc(size_t count, size_t size);       // NOLINT
void *__libc_realloc(void *memory, size_t size);      // NOLINT
void *__libc_memalign(size_t alignment, size_t size); // NOLINT

/* Returns whether this allocation must fail. */
static bool is_refused(enum call call, const void *caller) {
    if (page == NULL || is_sparing || is_spared(caller) || meet(SCOPE_heap, call) != HOW_FAIL) return false;
    errno = ENOMEM;
    return true;
}

EXPORT void *malloc(size_t size) {
    return is_refused(CALL_malloc, __builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size) {
    return is_refused(CALL_calloc, __builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

EXPORT void *realloc(void *memory, size_t size) {
    return is_refused(CALL_realloc, __builtin_return_address(0)) ? NULL : __libc_realloc(memory, size);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
    if (is_refused(CALL_posix_memalign, __builtin_return_address(0))) return ENOMEM;
    void *memory = __libc_memalign(alignment, size);
    if (memory == NULL) return ENOMEM;
    *out = memory;
    return 0;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    return is_refused(CALL_aligned_alloc, __builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
}

/* Works like libc's strdup, but its allocation counts as made by its caller. */
EXPORT char *strdup(const char *text) {
    if (is_refused(CALL_strdup, __builtin_return_address(0))) return NULL;
    size_t size = strlen(text) + 1;
    char *copy = __libc_malloc(size);
    return copy == NULL ? NULL : memcpy(copy, text, size);
}
