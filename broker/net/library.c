/* library.c: see library.h. */
#include "library.h"

#include <libwebsockets.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE 256

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void (*tell)(void *argument, const char *text);
static void *tell_argument;

static void emit(int level, const char *line) {
    char text[TEXT_SIZE];
    size_t size = strcspn(line, "\n");
    if (size >= sizeof(text)) size = sizeof(text) - 1;
    memcpy(text, line, size);
    text[size] = '\0';
    pthread_mutex_lock(&mutex);
    if (tell != NULL) tell(tell_argument, text);
    pthread_mutex_unlock(&mutex);
}

static _Thread_local bool has_lacked;

static void *allocate(void *block, size_t size, const char *reason) {
    (void)reason;
    if (size == 0) {
        free(block);
        return NULL;
    }
    void *made = realloc(block, size);
    has_lacked |= made == NULL;
    return made;
}

static void begin(void) {
    lws_set_log_level(LLL_ERR, emit);
    lws_set_allocator(allocate);
}

void library_begin(void) {
    (void)pthread_once(&once, begin);
}

bool library_lacked(void) {
    bool lacked = has_lacked;
    has_lacked = false;
    return lacked;
}

void library_tell(void (*says)(void *argument, const char *text), void *argument) {
    library_begin();
    pthread_mutex_lock(&mutex);
    tell = says;
    tell_argument = argument;
    pthread_mutex_unlock(&mutex);
}
