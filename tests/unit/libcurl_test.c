/* libcurl_test.c: error messages if libcurl is missing, too old, or cannot be initialized (broker/curl). Each case runs
 * in a new process, because a process looks for the library only once. */
#include "libcurl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../must.h"

static bool is_absent, starts;
static const char *lacks; /* name of the function that the library lacks */

void *__real_dlopen(const char *name, int flags);
void *__real_dlsym(void *library, const char *name);
char *__real_dlerror(void);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *library, const char *name);
char *__wrap_dlerror(void);

static CURLcode global_init(long flags) {
    return flags == CURL_GLOBAL_DEFAULT && starts ? CURLE_OK : CURLE_FAILED_INIT;
}

static bool is_libcurl(const void *library) {
    return library == (const void *)&starts;
}

void *__wrap_dlopen(const char *name, int flags) {
    if (strcmp(name, "libcurl.so.4") != 0) return __real_dlopen(name, flags);
    return is_absent ? NULL : &starts;
}

void *__wrap_dlsym(void *library, const char *name) {
    if (!is_libcurl(library)) return __real_dlsym(library, name);
    if (lacks != NULL && strcmp(name, lacks) == 0) return NULL;
    return strcmp(name, "curl_global_init") == 0 ? (void *)(uintptr_t)global_init : &starts;
}

char *__wrap_dlerror(void) {
    static char sentence[] = "libcurl.so.4: there is no such file";
    return is_absent ? sentence : __real_dlerror();
}

/* Returns whether a new process gets the message `expected` (NULL: the library was loaded), both at the first and at
 * the second attempt. */
static bool is_told(const char *expected) {
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        const char *why = libcurl_load();
        bool is_right = expected == NULL ? why == NULL : why != NULL && strcmp(why, expected) == 0;
        _exit(is_right && libcurl_load() == why ? 0 : 1);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void it_is_there_or_the_reason_is_said(void **state) {
    (void)state;
    starts = true;
    assert_true(is_told(NULL));
    starts = false;
    assert_true(is_told("libcurl.so.4 cannot be initialized"));
    is_absent = true;
    assert_true(is_told("libcurl.so.4: there is no such file"));
}

static void one_that_lacks_a_function_is_none(void **state) {
    (void)state;
    is_absent = false;
    static const char *const names[] = {"curl_easy_init", "curl_global_init", "curl_multi_poll", "curl_slist_free_all"};
    static const char *const said[] = {"libcurl.so.4 has no function curl_easy_init",
                                       "libcurl.so.4 has no function curl_global_init",
                                       "libcurl.so.4 has no function curl_multi_poll",
                                       "libcurl.so.4 has no function curl_slist_free_all"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        lacks = names[i];
        starts = true;
        assert_true(is_told(said[i]));
        starts = false; /* no second attempt is made to load the library */
        assert_true(is_told(said[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_there_or_the_reason_is_said),
        cmocka_unit_test(one_that_lacks_a_function_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
