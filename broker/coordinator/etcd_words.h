/* etcd_words.h: what is said to etcd's JSON gateway (/v3/…), and what its answers say.
 *
 * An answer is hostile: each function takes exactly what etcd 3.4 and later write for what was asked, and says in a
 * sentence what else came. In JSON a 64-bit number is a string, bytes are base64, and what is 0, empty or false is left
 * out; so "refused" is a missing word, and is believed only with the entries that prove it.
 *
 * Thread-safety: pure functions. Texts that are returned are the caller's (free); NULL: no memory. */
#ifndef TARRY_COORDINATOR_ETCD_WORDS_H
#define TARRY_COORDINATOR_ETCD_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator.h"

#define ETCD_KEY_SIZE (COORDINATOR_URL_SIZE_MAX + COORDINATOR_NAME_SIZE_MAX + 2)
#define ETCD_ANSWER_SIZE_MAX 65536 /* bytes; the largest that is asked for: COORDINATOR_CHANGES_MAX values, base64 */
#define ETCD_TOKEN_SIZE_MAX 4096   /* bytes */

/* An entry as etcd has it. */
struct etcd_entry {
    uint64_t version; /* 0: there is none; else that of the coordinator's calls, too: from 1, and 1 more each change */
    uint64_t birth;   /* revision that made it */
    uint64_t mark;    /* revision that changed it last */
    size_t size;
    char value[COORDINATOR_VALUE_SIZE_MAX + 1];
};

/* What a call wants to happen to one key. */
struct etcd_change {
    const char *key;
    const struct coordinator_change *change;
    const struct etcd_entry *known; /* what was seen at the expected version; NULL: nothing was */
};

char *etcd_ask_range(const char *key);
/* How many keys begin with `prefix`: a question that only a member with a majority behind it can answer. */
char *etcd_ask_count(const char *prefix);
/* Compares version, and if it was seen revision and value too; then puts; and reads all keys in either case. */
char *etcd_ask_change(const struct etcd_change *changes, size_t count);
char *etcd_ask_watch(const char *prefix);
char *etcd_ask_token(const char *user, size_t user_size, const char *password);

/* A lease of so many seconds; a put with one; and what is asked of one: to be kept, or revoked. */
char *etcd_ask_lease(uint64_t seconds);
char *etcd_ask_put(const char *key, const char *text, uint64_t lease);
char *etcd_ask_with_lease(uint64_t lease);

/* Of each: 0, or 1 with a sentence (without "coordinator: "). `out_cluster` is the id of the answering cluster. */
int etcd_take_count(const char *text, size_t size, uint64_t *out_cluster, char message[COORDINATOR_MESSAGE_SIZE]);
int etcd_take_range(const char *text, size_t size, const char *key, uint64_t *out_cluster, struct etcd_entry *out,
                    char message[COORDINATOR_MESSAGE_SIZE]);
/* `out`: the entries after it, changed or not. A change that happened and made of an entry what was not asked for, or
 * that did not and shows no reason, is an error: nothing is known. */
int etcd_take_change(const char *text, size_t size, const struct etcd_change *changes, size_t count,
                     uint64_t *out_cluster, bool *out_happened, struct etcd_entry out[COORDINATOR_CHANGES_MAX],
                     char message[COORDINATOR_MESSAGE_SIZE]);
int etcd_take_token(const char *text, size_t size, char out[ETCD_TOKEN_SIZE_MAX + 1],
                    char message[COORDINATOR_MESSAGE_SIZE]);
/* Of a grant or a keepalive; no seconds: it has run out. */
int etcd_take_lease(const char *text, size_t size, uint64_t *out_lease, uint64_t *out_seconds,
                    char message[COORDINATOR_MESSAGE_SIZE]);
/* Whether the line of a watch says that it has ended. */
bool etcd_is_watch_over(const char *line, size_t size);

/* What etcd refuses with. */
enum etcd_refusal {
    ETCD_OTHER = 1,  /* it may have happened: a time-out, a leader that changed */
    ETCD_TOKEN_OLD,  /* nothing was looked at: another token is needed */
    ETCD_NO_TOKEN,   /* it asks for a user, and has not looked at anything */
    ETCD_FORBIDDEN,  /* the user may not */
    ETCD_WRONG_USER, /* user or password */
    ETCD_NO_USERS,   /* authentication is not enabled */
    ETCD_NO_ROOM,    /* its quota is used up */
};
/* The error in an answer with another status than 200; `out` gets its text, printable. */
enum etcd_refusal etcd_take_refusal(long status, const char *text, size_t size, char out[COORDINATOR_MESSAGE_SIZE]);

#endif
