/* fatal.c: see fatal.h. */
#include "fatal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logfmt.h"
#include "storage_codes.h"

const char *storage_error(int error) {
    switch (error) {
    case LOG_DAMAGED:
        return "the log is damaged";
    case LOG_VERSION:
        return "the log has another format version";
    case LOG_FOREIGN:
        return "the log belongs to another cluster";
    case LOG_RETIRED:
        return "that part of the log was retired";
    case LOG_END:
        return "the log ends there";
    case INDEX_DAMAGED:
        return "the index is damaged";
    case INDEX_VERSION:
        return "the index has another format version";
    case INDEX_FOREIGN:
        return "the index belongs to another cluster";
    default:
        break;
    }
    /* LMDB's own codes are near -30790. */
    return error > -4096 && error < 0 ? strerror(-error) : "LMDB failed";
}

_Noreturn void fatal(const char *what, int error) {
    logfmt(what, "error=%d reason=\"%s\" action=exit", error, storage_error(error));
    _exit(EXIT_STORAGE);
}

_Noreturn void refuse_to_start(const char *event, const char *sentence) {
    char quoted[LOGFMT_VALUE_SIZE];
    logfmt(event, "reason=%s", logfmt_quote(sentence, quoted));
    exit(EXIT_REFUSED);
}

_Noreturn void refuse_damaged(const char *directory, bool is_pair, const char *sentence) {
    char quoted[LOGFMT_VALUE_SIZE], action[LOGFMT_VALUE_SIZE], quoted_action[LOGFMT_VALUE_SIZE];
    snprintf(action, sizeof action, "'tarry verify %s' shows the damage; move that directory away, and %s", directory,
             is_pair ? "start this node with an empty one and the option follow: it copies the other node's data"
                     : "restore the newest backup with 'tarry restore BACKUP --data DIR'");
    logfmt("refused", "reason=%s action=%s", logfmt_quote(sentence, quoted), logfmt_quote(action, quoted_action));
    exit(EXIT_REFUSED);
}

static _Noreturn void starved(void) {
    fatal("memory_failed", -ENOMEM);
}

void fatal_arena_init(struct arena *arena) {
    arena_init(arena, SIZE_MAX);
    arena->on_starved = starved;
}

void *fatal_calloc(size_t size) {
    void *memory = calloc(1, size > 0 ? size : 1);
    if (memory == NULL) starved();
    return memory;
}

void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument) {
    int error = pthread_create(thread, NULL, run, argument);
    if (error != 0) {
        logfmt("thread_failed", "name=%s reason=\"%s\"", name, strerror(error));
        _exit(1);
    }
    pthread_setname_np(*thread, name);
}
